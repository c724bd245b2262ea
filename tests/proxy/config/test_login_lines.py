"""`sluice check` says what is refused beside Sluice's own credentials, as whom unreadable logins count, and which
requests policies cannot read.
"""

import pytest

from policies.validation import try_convert
from proxy.config import Config
from proxy.config.hints import hints, login_lines, unread_lines
from wire import apis, codec

SERVERS = {"bootstrap_servers": ["127.0.0.1:9092"]}
SASL = {"mechanism": "SCRAM-SHA-512", "username": "u"}
QUOTA = {"use": "quota", "config": {"quotas": [{"user": "<default>", "request_rate": 1}]}}


def config_of(**sections: object) -> Config:
    config, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert problems == []
    assert config is not None
    return config


def test_a_sluice_without_credentials_and_policies_has_nothing_to_say() -> None:
    """The brokers judge every client by its own."""
    assert list(login_lines(config_of())) == []


@pytest.mark.parametrize("upstream", [{"sasl": SASL}, {"tls": {"cert_file": "c", "key_file": "k"}}])
def test_what_is_refused_and_the_rights_that_are_needed_are_told(
    upstream: dict[str, object],
) -> None:
    """Every refused API by Kafka's name; the two that serve topics too say so."""
    refused, rights, *_ = login_lines(config_of(upstream={**SERVERS, **upstream}))
    for name in ("CreateDelegationToken", "AlterUserScramCredentials", "AlterClientQuotas"):
        assert name in refused
    assert "IncrementalAlterConfigs (but of topics and groups)" in refused
    assert "not ClusterAction, Alter or AlterConfigs" in rights


def test_what_is_forwarded_or_answered_is_not_told_as_refused() -> None:
    """`quota` answers its two APIs, while it enforces."""
    sasl = {**SASL, "forward_credential_apis": ["DescribeAcls"]}
    upstream = {**SERVERS, "sasl": sasl}
    refused, forwarded, _ = login_lines(config_of(upstream=upstream, policies=[QUOTA]))
    assert "DescribeAcls" not in refused
    assert "ClientQuotas" not in refused
    assert forwarded == "Forwarded by Sluice's credentials all the same: DescribeAcls."
    observing = [{**QUOTA, "mode": "observe"}]
    refused, *_ = login_lines(config_of(upstream=upstream, policies=observing))
    assert "DescribeClientQuotas, AlterClientQuotas" in refused


@pytest.mark.parametrize(
    ("sections", "user"),
    [
        ({}, "UNKNOWN"),
        ({"identity": {"user": "billing"}}, "billing"),
        (
            {
                "listen": {
                    "tls": {
                        "cert_file": "c",
                        "key_file": "k",
                        "client_auth": "required",
                        "client_ca_file": "a",
                    }
                }
            },
            "of its certificate",
        ),
    ],
)
def test_a_login_without_a_name_counts_for_a_user_that_check_names(
    sections: dict[str, object], user: str
) -> None:
    """A certificate or a fixed name, else a user of its own."""
    (line,) = login_lines(config_of(policies=[QUOTA], **sections))
    assert line.endswith(f"is the user {user}.")


@pytest.mark.parametrize(
    ("user", "told"), [("alice", True), ("<default>", False), ("UNKNOWN", False)]
)
def test_a_limit_that_a_login_without_a_name_evades_is_told(
    user: str,
    told: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A limit for alice alone ends where she logs in by a delegation token."""
    lines = [{"user": "alice", "request_rate": 1}, {"user": user, "request_rate": 2}]
    policies = [{"use": "quota", "config": {"quotas": lines[user == "alice" :]}}]
    found = [each.partition(":")[0] for each in hints(config_of(policies=policies))]
    assert found == ["policies[0].config.quotas"] * told
    for sections in (
        {"identity": {"user": "billing"}},
        {"upstream": {**SERVERS, "sasl": SASL}},
        {"listen": {"sasl": {"users_file": "u"}}},
    ):
        assert list(hints(config_of(policies=policies, **sections))) == []


def test_an_unknown_api_that_passes_by_the_credentials_of_sluice_is_told() -> None:
    """Sluice cannot know what it does."""
    sections = {"pass_unknown_apis": [1234]}
    assert list(hints(config_of(**sections))) == []
    (told,) = hints(config_of(upstream={**SERVERS, "sasl": SASL}, **sections))
    assert told.startswith("pass_unknown_apis[0]: the brokers judge 1234 by Sluice's own")


def test_quotas_that_are_told_before_access_is_asked_are_told() -> None:
    """The first entry that answers a request ends the chain."""
    quota = {"use": "quota", "config": {"quotas": [{"user": "<default>", "request_rate": 1}]}}
    rules = {"rules": [{"who": ["bob"], "topics": {"t": ["read"]}}]}
    access = {"use": "access", "config": rules}
    assert list(hints(config_of(policies=[access, quota], identity={"user": "u"}))) == []
    (told,) = hints(config_of(policies=[quota, access], identity={"user": "u"}))
    assert told.startswith("policies[0]: quota stands above access")


def test_a_certificate_that_is_lent_to_everyone_is_told() -> None:
    """As a login is."""
    upstream = {**SERVERS, "tls": {"cert_file": "c", "key_file": "k"}}
    listen = {"address": "0.0.0.0", "advertised_host": "sluice"}  # noqa: S104 - the point of the test
    (told,) = hints(config_of(upstream=upstream, listen=listen))
    assert told.startswith("upstream.tls.cert_file: every client that can connect")


def test_the_versions_that_the_codec_cannot_decode_are_told() -> None:
    """They are those that a release of Kafka removed, each of them; a Sluice without policies decodes none."""
    unread = {kind for kind, api in apis.BY_KEY_AND_VERSION.items() if not codec.is_known(api)}
    assert unread == {kind for kind, api in apis.BY_KEY_AND_VERSION.items() if api.removed_in}
    (line,) = unread_lines(config_of(policies=[QUOTA]))
    assert "Produce v0-2, Fetch v0-3, ListOffsets v0," in line
    assert list(unread_lines(config_of())) == []
