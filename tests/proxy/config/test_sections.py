"""The sections of the configuration: the values of each setting, and checks within a section."""

import pytest

from policies.validation import try_convert
from proxy.config import Config
from proxy.config.sections import ListenSettings
from proxy.config.security import ListenTls

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}


def problems_of(**sections: object) -> list[str]:
    value, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


def test_ports_follow_the_order_of_the_nodes() -> None:
    """A node's port is the bootstrap port + 1 + the node's index in the list."""
    listen = ListenSettings(port=9092, nodes="0-2,10-11")
    assert listen.node_ports() == {0: 9093, 1: 9094, 2: 9095, 10: 9096, 11: 9097}


def test_one_port_serves_all_nodes_if_sni_selects_the_broker() -> None:
    """Clients connect to a host for each node, and only the bootstrap port is bound."""
    tls = ListenTls(cert_file="c", key_file="k", sni_pattern="Broker-$(node).a.com")
    listen = ListenSettings(port=65535, nodes="0-1", advertised_host="a.com", tls=tls)
    assert listen.serves_by_sni
    assert listen.node_ports() == {}
    assert list(listen.client_ports()) == [65535]
    assert listen.node_addresses() == {0: ("broker-0.a.com", 65535), 1: ("broker-1.a.com", 65535)}
    assert listen.advertised_hosts() == {"a.com", "broker-0.a.com", "broker-1.a.com"}
    assert list(listen.mistakes()) == []


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("10.0.0.1", "'10.0.0.1', an address"),
        ("fd00::1", "'fd00::1', an address"),
        ("Broker-1.a.com", "'Broker-1.a.com', the host of node 1"),
    ],
)
def test_the_bootstrap_has_a_name_of_its_own_if_sni_selects_the_broker(
    host: str, found: str
) -> None:
    """A TLS client sends no address as a name, and a node's name would select the node."""
    tls = {"cert_file": "c", "key_file": "k", "sni_pattern": "broker-$(node).a.com"}
    (text,) = problems_of(listen={"advertised_host": host, "nodes": "0-1", "tls": tls})
    assert text.startswith(f"listen.advertised_host: found {found}, expected a host ")
    assert (
        problems_of(listen={"advertised_host": "broker-2.a.com", "nodes": "0-1", "tls": tls}) == []
    )


def test_without_sni_every_node_has_a_port_at_the_advertised_host() -> None:
    """TLS changes nothing about the ports."""
    for tls in (None, ListenTls(cert_file="c", key_file="k")):
        listen = ListenSettings(port=9092, nodes="3-4", advertised_host="a.com", tls=tls)
        assert not listen.serves_by_sni
        assert listen.node_addresses() == {3: ("a.com", 9093), 4: ("a.com", 9094)}
        assert list(listen.client_ports()) == [9092, 9093, 9094]


def test_every_nodes_port_must_be_valid() -> None:
    """The last node's port is at most 65535."""
    assert problems_of(listen={"port": 65533, "nodes": "0-1"}) == []
    (text,) = problems_of(listen={"port": 65534, "nodes": "0-1"})
    assert text.startswith("listen.port: found 65534 (the last node would have 65536), expected 1")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - the point of the test
def test_a_listener_on_all_addresses_needs_an_advertised_host(address: str) -> None:
    """Clients cannot dial the address that means "all addresses"."""
    for listen in ({"address": address}, {"advertised_host": address}):
        (text,) = problems_of(listen=listen)
        assert text.startswith("listen.advertised_host: found ")
    assert problems_of(listen={"address": address, "advertised_host": "sluice.internal"}) == []


def test_what_is_allowed_at_a_bound() -> None:
    """-1 means no bound, only a produce may have an earlier deadline, and a user is a name without a prefix."""
    assert problems_of(memory={"queued_max_requests": -1, "queued_max_request_bytes": -1}) == []
    early = {"produce_grace_ms": -60_000, "fetch_grace_ms": 0, "max_wait_ms": 1}
    assert problems_of(purgatory=early) == []
    assert problems_of(identity={"user": "billing app"}) == []
