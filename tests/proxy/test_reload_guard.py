"""The guard of Sluice's own credentials is in every chain that needs it, also after a reload."""

import pytest

from policies.credential_guard import NAME, with_guard
from policies.registry import PolicyEntry
from proxy.config import Config
from proxy.config.security import UpstreamSasl, UpstreamTls
from proxy.config.upstream import UpstreamSettings
from tests.support.processes.admin_room import config_of, quota_entry, roomy
from wire.apis import ApiKey

SERVERS = ("kafka:9092",)
SASL = UpstreamSasl(mechanism="PLAIN", username="u", forward_credential_apis=("DescribeAcls",))


@pytest.mark.parametrize(
    ("upstream", "names"),
    [
        (UpstreamSettings(bootstrap_servers=SERVERS), []),
        (UpstreamSettings(bootstrap_servers=SERVERS, tls=UpstreamTls()), []),
        (
            UpstreamSettings(
                bootstrap_servers=SERVERS, tls=UpstreamTls(cert_file="c", key_file="k")
            ),
            [NAME],
        ),
        (UpstreamSettings(bootstrap_servers=SERVERS, sasl=SASL), [NAME]),
    ],
)
def test_a_login_or_a_certificate_of_sluice_has_a_guard(
    upstream: UpstreamSettings, names: list[str]
) -> None:
    """Without them the brokers judge each client by its own."""
    assert [each.name for each in with_guard([], upstream.forwarded_credential_apis())] == names


async def test_a_reload_of_the_policies_keeps_the_guard_and_what_is_hidden() -> None:
    """It stays last. With a quota its two APIs are offered; without one they are not."""
    upstream = UpstreamSettings(bootstrap_servers=SERVERS, sasl=SASL)
    quotas = {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}

    def settings(*policies: PolicyEntry) -> Config:
        return config_of(policies=policies, upstream=upstream)

    with roomy(upstream=upstream) as room:
        for policies in ((quota_entry(),), (), (PolicyEntry(use="limits"), quota_entry())):
            room.settings = settings(*policies)
            assert (await room.reloader.reload()).ok
            names = [entry.name for entry in room.engine.chain.entries]
            assert names == [*(each.name for each in policies), NAME]
            hidden = room.engine.rewrites.hidden
            assert {ApiKey.CREATE_ACLS, ApiKey.CREATE_DELEGATION_TOKEN} <= hidden
            assert ApiKey.DESCRIBE_ACLS not in hidden
            assert (quotas <= hidden) is (not policies)
