"""What the configuration's types must hold."""

from __future__ import annotations

import pytest

from policies.validation import try_convert
from proxy.config import Config, Listen, PolicyEntry, Upstream

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}


def problems_of(**sections: object) -> list[str]:
    value, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


def test_only_the_upstream_is_needed() -> None:
    """With nothing else said, every default holds as documented."""
    config, problems = try_convert(Config, {"upstream": SERVERS})
    assert problems == []
    assert config == Config(upstream=Upstream(bootstrap_servers=("kafka-1:9092",)))
    assert config.upstream.addresses() == (("kafka-1", 9092),)
    assert (
        config.upstream.socket_connection_setup_timeout_ms,
        config.upstream.request_timeout_ms,
    ) == (
        10_000,
        120_000,
    )
    assert (config.listen.address, config.listen.port) == ("127.0.0.1", 19092)
    assert config.listen.advertised_host == "127.0.0.1"
    assert config.listen.node_ids() == tuple(range(32))
    assert config.identity.user == ""
    assert config.limits.socket_request_max_bytes == 100 * 1024 * 1024
    assert config.limits.max_connections == 0
    assert (config.purgatory.produce_grace_ms, config.purgatory.fetch_grace_ms) == (-500, 1000)
    assert config.purgatory.max_wait_ms == 120_000
    memory = config.memory
    assert memory.queued_max_request_bytes == memory.queued_max_response_bytes == 0  # derived
    assert memory.queued_max_requests == -1
    assert (memory.request_read_timeout_ms, memory.request_min_bytes_per_second) == (30_000, 1024)
    assert config.max_share() == 1.0
    assert config.drain.timeout_ms == 10_000
    assert (config.log.level, config.log.format) == ("info", "text")
    assert config.policies == ()
    assert config.unknown_apis() == frozenset()


@pytest.mark.parametrize(
    ("address", "set_to", "share"),
    [
        ("127.0.0.1", 0, 1.0),
        ("127.64.0.3", 0, 1.0),
        ("::1", 0, 1.0),
        ("localhost", 0, 1.0),
        ("10.0.0.1", 0, 0.25),
        ("10.0.0.1", 0.5, 0.5),
        ("127.0.0.1", 0.5, 0.5),
    ],
)
def test_one_user_at_one_address_has_a_share(address: str, set_to: float, share: float) -> None:
    """Behind a loopback address there is one application, and all of the pool is its own."""
    config, problems = try_convert(
        Config,
        {"upstream": SERVERS, "listen": {"address": address}, "memory": {"max_share": set_to}},
    )
    assert problems == []
    assert config.max_share() == share


def test_no_bound_is_minus_one_and_not_nothing() -> None:
    """0 requests would be none at all; other sizes below are no sizes."""
    assert problems_of(memory={"queued_max_requests": 0}) == [
        "memory.queued_max_requests: found 0, expected a number from 1 on, or -1 for no bound"
    ]
    assert problems_of(memory={"queued_max_requests": -1, "queued_max_request_bytes": -1}) == []
    assert len(problems_of(memory={"queued_max_request_bytes": -2, "max_share": 1.5})) == 2


def test_without_upstream_the_missing_key_is_named() -> None:
    """The first thing a user forgets is named in full."""
    _, (problem,) = try_convert(Config, {})
    assert problem.path == "upstream.bootstrap_servers"


def test_ports_follow_the_order_of_the_nodes() -> None:
    """A node's port is the bootstrap port + 1 + its place in the list."""
    listen = Listen(port=9092, nodes="0-2,10-11")
    assert listen.node_ports() == {0: 9093, 1: 9094, 2: 9095, 10: 9096, 11: 9097}


def test_all_ports_must_exist() -> None:
    """The last node's port is at most 65535."""
    assert problems_of(listen={"port": 65533, "nodes": "0-1"}) == []
    assert problems_of(listen={"port": 65534, "nodes": "0-1"}) == [
        (
            "listen.port: found 65534 (the last node would have 65536), expected a port of at most"
            " 65533, for the ports of all nodes"
        )
    ]


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - the point of the test
def test_all_addresses_is_no_address_to_dial(address: str) -> None:
    """Who binds everywhere must say what clients dial, and cannot say "everywhere"."""
    (text,) = problems_of(listen={"address": address})
    assert text.startswith(
        "listen.advertised_host: found nothing, expected a host that clients can dial"
    )
    assert problems_of(listen={"address": address, "advertised_host": "sluice.internal"}) == []
    (text,) = problems_of(listen={"advertised_host": address})
    assert (
        text == f"listen.advertised_host: found '{address}', expected a host that clients can dial"
    )


@pytest.mark.parametrize(
    ("server", "listen"),
    [
        ("127.0.0.1:19092", {}),
        ("localhost:19100", {}),
        ("[::1]:19092", {"address": "0.0.0.0", "advertised_host": "s"}),  # noqa: S104 - as above
        ("s:19092", {"advertised_host": "s"}),
    ],
)
def test_sluice_is_not_its_own_upstream(server: str, listen: dict[str, object]) -> None:
    """A bootstrap server that is one of our own ports would be a ring."""
    found = problems_of(upstream={"bootstrap_servers": ["a:1", server]}, listen=listen)
    assert found == [
        (
            f"upstream.bootstrap_servers[1]: found {server!r}, where Sluice itself listens, expected"
            " a broker's address"
        )
    ]


def test_a_broker_on_the_same_host_is_no_ring() -> None:
    """Only our own ports are refused."""
    assert problems_of(upstream={"bootstrap_servers": ["localhost:9092", "127.0.0.1:19125"]}) == []


def test_only_a_produce_can_be_answered_before_its_time() -> None:
    """A fetch answered early would lose what the broker may still find; every wait has an end."""
    early = {"produce_grace_ms": -60_000, "fetch_grace_ms": 0, "max_wait_ms": 1}
    assert problems_of(purgatory=early) == []
    found = problems_of(purgatory={"fetch_grace_ms": -1, "max_wait_ms": 0})
    assert [text.partition(":")[0] for text in found] == [
        "purgatory.fetch_grace_ms",
        "purgatory.max_wait_ms",
    ]


def test_a_fixed_user_is_a_bare_name() -> None:
    """As the brokers know it; Kafka's prefix of a principal is taken off by whoever writes it."""
    assert problems_of(identity={"user": "billing app"}) == []
    assert problems_of(identity={"user": "User:billing"}) == [
        (
            "identity.user: found 'User:billing', expected a user's bare name as the brokers know"
            " it, without User:; did you mean billing?"
        )
    ]


def test_mistakes_of_all_sections_come_together() -> None:
    """What one section has wrong hides nothing in another, cross-checks included."""
    found = problems_of(
        upstream={"bootstrap_servers": ["a"], "socket_connection_setup_timeout_ms": 0},
        listen={"port": 65535},
        log={"level": "inf"},
        policies=[{"name": "x"}],
        pass_unknown_apis=["Vote", 40000],
    )
    assert [text.partition(":")[0] for text in found] == [
        "upstream.bootstrap_servers[0]",
        "upstream.socket_connection_setup_timeout_ms",
        "listen.port",
        "log.level",
        "policies[0].use",
        "pass_unknown_apis[1]",
    ]


def test_a_policy_is_called_by_its_use_unless_named() -> None:
    """The name's default is the policy's."""
    assert PolicyEntry(use="limits").name == "limits"
    assert PolicyEntry(use="limits", name="mine").name == "mine"


@pytest.mark.parametrize("value", [1, "Fetch", "Metadata"])
def test_an_api_of_the_table_cannot_be_let_through_unread(value: int | str) -> None:
    """A newer Fetch could carry a broker's address."""
    (found,) = problems_of(upstream={"bootstrap_servers": ["a:1"]}, pass_unknown_apis=[value])
    assert found.startswith("pass_unknown_apis[0]: ")
    assert "versions" in found


def test_unknown_apis_by_key_or_name() -> None:
    """Names and numbers end as keys."""
    config = Config(upstream=Upstream(bootstrap_servers=("a:1",)), pass_unknown_apis=(1234, "Vote"))
    assert config.unknown_apis() == {1234, 52}
