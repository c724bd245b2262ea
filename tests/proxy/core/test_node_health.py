"""Node health is shared by all connections of a broker. `test_deadlines.py` has since when one is silent."""

import gc

from proxy.core.node_health import Nodes


def test_a_broker_is_forgotten_with_its_last_connection():
    """The memory of addresses does not grow."""
    nodes = Nodes()
    one = nodes.health(1)
    one.heard_ms = 7
    assert nodes.health(1) is one
    assert nodes.health("10.0.0.1:9092") is not nodes.health(None)
    del one
    gc.collect()
    assert nodes.health(1).heard_ms == 0


def test_brokers_at_the_bootstrap_port_are_found_by_their_addresses():
    """A node's port leads to one broker, the bootstrap port to any; a broker without a connection is unknown."""
    nodes = Nodes()
    first, second = nodes.health("10.0.0.1:9092"), nodes.health("10.0.0.2:9092")
    node, waiting = nodes.health(3), nodes.health(None)
    assert nodes.at(None) == [first, second]
    assert nodes.at(3) == [node]
    assert nodes.at(4) == []
    del first, waiting
    assert nodes.at(None) == [second]


def test_bytes_of_a_node_are_counted_over_all_its_connections():
    """The counts stay after its last connection has ended."""
    nodes = Nodes()
    from_clients, from_broker = nodes.traffic_of(3)
    from_clients.read_bytes += 5
    from_broker.read_bytes += 7
    assert [each.read_bytes for each in nodes.traffic_of(3)] == [5, 7]
    assert [each.read_bytes for each in nodes.traffic_of(None)] == [0, 0]
