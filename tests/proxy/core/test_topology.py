"""Topology: what clients are told, what is learnt, and what never leaks."""

from __future__ import annotations

from proxy.core.topology import NO_NODE, Topology
from tests.support.sessions import Watcher


def make() -> tuple[Topology, Watcher]:
    watcher = Watcher()
    return Topology("localhost", 19092, {0: 19093, 1: 19094, 7: 19095}, watcher), watcher


def test_a_declared_node_is_advertised_at_its_own_port_and_learnt():
    """The real address stays here."""
    topology, watcher = make()
    assert topology.address_of(7) is None
    assert topology.advertise(7, b"kafka-7.real", 9092) == (b"localhost", 19095)
    assert topology.address_of(7) == ("kafka-7.real", 9092)
    assert watcher.learned == {7: ("kafka-7.real", 9092)}


def test_a_broker_that_moved_is_followed():
    """The next response that names it is enough."""
    topology, watcher = make()
    topology.advertise(1, b"old", 9092)
    topology.advertise(1, b"new", 9093)
    assert topology.address_of(1) == ("new", 9093)
    topology.learn({1: (b"newer", 9094)})
    assert topology.address_of(1) == ("newer", 9094)
    assert watcher.learned[1] == ("newer", 9094)


def test_a_node_outside_the_range_stands_at_the_bootstrap_port_counted_and_reported_once():
    """Leaking it would let the client past us."""
    topology, watcher = make()
    for _ in range(3):
        assert topology.advertise(99, b"kafka-99", 9092) == (b"localhost", 19092)
    assert topology.unmapped_total == 3
    assert topology.unmapped_nodes == {99}
    assert watcher.unmapped == [99]


def test_concealing_learns_nothing():
    """A controller's listener is no place to dial."""
    topology, _ = make()
    assert topology.conceal(1, b"controller", 9093) == (b"localhost", 19094)
    assert topology.conceal(99, b"controller", 9093) == (b"localhost", 19092)
    assert topology.address_of(1) is None
    assert topology.unmapped_total == 0


def test_nobody_is_not_learnt():
    """FindCoordinator says node -1 while there is no coordinator."""
    topology, watcher = make()
    topology.learn({NO_NODE: (b"", -1), 0: (b"", 9092), 1: (b"h", 0)})
    assert watcher.learned == {}
