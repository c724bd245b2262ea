"""Checks across the types of the configuration."""

import pytest

from policies.registry import PolicyEntry
from policies.validation import try_convert
from proxy.config import Config
from proxy.config.upstream import UpstreamSettings

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}


def problems_of(**sections: object) -> list[str]:
    value, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


@pytest.mark.parametrize(
    ("address", "set_to", "share"),
    [
        ("127.0.0.1", 0, 1.0),
        ("10.0.0.1", 0, 0.25),
        ("10.0.0.1", 0.5, 0.5),
        ("127.0.0.1", 0.5, 0.5),
    ],
)
def test_one_user_at_one_address_has_a_share_of_the_pool(
    address: str, set_to: float, share: float
) -> None:
    """A loopback address serves one application, which gets the whole pool."""
    config, problems = try_convert(
        Config,
        {"upstream": SERVERS, "listen": {"address": address}, "memory": {"max_share": set_to}},
    )
    assert problems == []
    assert config.max_share() == share


@pytest.mark.parametrize(
    ("server", "listen"),
    [
        ("127.0.0.1:19092", {}),
        ("localhost:19100", {}),
        ("[::1]:19092", {"address": "0.0.0.0", "advertised_host": "s"}),  # noqa: S104 - as above
        ("s:19092", {"advertised_host": "s"}),
        ("127.0.0.9:19092", {"address": "0.0.0.0", "advertised_host": "s"}),  # noqa: S104 - as above
    ],
)
def test_sluice_is_not_its_own_upstream(server: str, listen: dict[str, object]) -> None:
    """A bootstrap server that is one of Sluice's own ports would be a loop."""
    found = problems_of(upstream={"bootstrap_servers": ["a:1", server]}, listen=listen)
    assert found == [
        f"upstream.bootstrap_servers[1]: found {server!r}, where Sluice itself listens, expected a broker's address"
    ]


def test_only_bound_ports_and_selected_hosts_count_if_sni_selects_the_broker() -> None:
    """The ports after the bootstrap port are free for brokers and for the admin server; a node's host is Sluice."""
    tls = {"cert_file": "c", "key_file": "k", "sni_pattern": "b-$(node).a"}
    listen = {"advertised_host": "s.a", "tls": tls}
    free = {"upstream": {"bootstrap_servers": ["localhost:19093"]}, "listen": listen}
    assert problems_of(admin={"listen": "127.0.0.1:19093"}, **free) == []
    assert problems_of(admin={"listen": "127.0.0.1:19092"}, **free) == [
        "admin.listen: found '127.0.0.1:19092', expected a port other than 19092, which clients connect to"
    ]
    (found,) = problems_of(upstream={"bootstrap_servers": ["b-0.a:19092"]}, listen=listen)
    assert "where Sluice itself listens" in found


def test_a_broker_on_the_same_host_is_allowed() -> None:
    """Only Sluice's own ports are refused."""
    assert problems_of(upstream={"bootstrap_servers": ["localhost:9092", "127.0.0.1:19125"]}) == []


def test_a_policy_without_a_name_is_named_after_its_use() -> None:
    """A given name has priority."""
    assert PolicyEntry(use="limits").name == "limits"
    assert PolicyEntry(use="limits", name="mine").name == "mine"


def test_unknown_apis_are_given_by_key_or_name() -> None:
    """Both end as API keys."""
    config = Config(
        upstream=UpstreamSettings(bootstrap_servers=("a:1",)), pass_unknown_apis=(1234, "Vote")
    )
    assert config.unknown_apis() == {1234, 52}


@pytest.mark.parametrize(
    ("upstream", "listen", "has"),
    [
        ({}, {}, False),
        ({"tls": {}}, {}, True),
        ({"sasl": {"mechanism": "PLAIN", "username": "u"}}, {}, True),
        ({}, {"tls": {"cert_file": "c", "key_file": "k"}}, True),
        ({}, {"sasl": {"users_file": "u"}}, True),
    ],
)
def test_a_process_with_tls_or_sasl_has_secrets(
    upstream: dict[str, object], listen: dict[str, object], *, has: bool
) -> None:
    """Its memory must not be dumped."""
    config, _ = try_convert(Config, {"upstream": {**SERVERS, **upstream}, "listen": listen})
    assert config is not None
    assert config.has_secrets() is has


def test_the_policy_audit_needs_a_file() -> None:
    """Without one the administrator would miss the lines only when they are needed."""
    policies = [{"use": "limits"}, {"use": "audit"}]
    (found,) = problems_of(policies=policies)
    assert found.startswith("policies[1].use: found 'audit' without audit.file")
    assert problems_of(policies=policies, audit={"file": "audit.jsonl"}) == []
