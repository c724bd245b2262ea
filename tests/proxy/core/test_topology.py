"""Topology: the addresses that clients see, the broker addresses that are learnt, and those that are hidden."""

import pytest

from proxy.core.errors import BrokerProtocolError
from proxy.core.topology import NO_NODE, UNMAPPED_MAX, Topology
from tests.support.core.sessions import Watcher

NODES = {0: ("localhost", 19093), 1: ("localhost", 19094), 7: ("localhost", 19095)}


def make() -> tuple[Topology, Watcher]:
    watcher = Watcher()
    return Topology("localhost", 19092, NODES, watcher), watcher


def test_a_declared_node_is_advertised_at_its_own_port_and_learnt():
    """Its real address stays inside Sluice; one response with a new one is enough."""
    topology, watcher = make()
    assert topology.address_of(7) is None
    assert topology.advertise(7, b"kafka-7.real", 9092) == (b"localhost", 19095)
    assert topology.address_of(7) == ("kafka-7.real", 9092)
    assert watcher.learned == {7: ("kafka-7.real", 9092)}
    topology.advertise(7, b"new", 9093)
    assert topology.address_of(7) == ("new", 9093)
    topology.learn({7: (b"newer", 9094)})
    assert topology.address_of(7) == watcher.learned[7] == ("newer", 9094)


def test_a_node_outside_the_range_is_advertised_at_the_bootstrap_port():
    """Its real address would lead clients past Sluice; the node is remembered, and reported once."""
    topology, watcher = make()
    for _ in range(3):
        assert topology.advertise(99, b"kafka-99", 9092) == (b"localhost", 19092)
    assert topology.unmapped_nodes == {99}
    assert watcher.unmapped == [99]


def test_hiding_an_address_learns_nothing():
    """A controller's listener must not be dialled."""
    topology, _ = make()
    assert topology.conceal(1, b"controller", 9093) == (b"localhost", 19094)
    assert topology.conceal(99, b"controller", 9093) == (b"localhost", 19092)
    assert topology.address_of(1) is None
    assert topology.unmapped_nodes == set()


def test_node_minus_one_is_not_learnt():
    """FindCoordinator names node -1 while there is no coordinator."""
    topology, watcher = make()
    topology.learn({NO_NODE: (b"", -1), 0: (b"", 9092)})
    assert watcher.learned == {}


def test_the_memory_of_unknown_nodes_is_bounded():
    """Only declared nodes are learnt, and a bounded number of the others is remembered."""
    topology, watcher = make()
    for node_id in range(100, 100 + 3 * UNMAPPED_MAX):
        assert topology.advertise(node_id, b"kafka-%d.real" % node_id, 9092)[1] == 19092
    topology.learn(dict.fromkeys(range(100, 200), (b"kafka.real", 9092)))
    assert topology.address_of(100) is None
    assert watcher.learned == {}
    assert len(topology.unmapped_nodes) == len(watcher.unmapped) == UNMAPPED_MAX


@pytest.mark.parametrize("node_id", [1, 99])
@pytest.mark.parametrize(
    ("host", "port"), [(b"kafka\0.evil", 9092), (b"kafka", 0), (b"kafka", -1), (b"kafka", 65536)]
)
def test_an_invalid_address_is_the_brokers_fault(node_id, host, port):
    """It is refused, not shortened; the address known before stays."""
    topology, _ = make()
    topology.advertise(1, b"kafka-1.real", 9092)
    for take in (
        topology.advertise,
        topology.conceal,
        lambda node_id, host, port: topology.learn({node_id: (host, port)}),
    ):
        with pytest.raises(BrokerProtocolError, match=f"node {node_id}"):
            take(node_id, host, port)
    assert topology.address_of(1) == ("kafka-1.real", 9092)
