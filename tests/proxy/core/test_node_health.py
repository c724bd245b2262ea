"""Node health: since when a broker has been silent, shared by all its connections."""

import gc

from proxy.core.node_health import NodeHealth, Nodes


def test_silence_counts_from_the_last_byte_or_the_first_reply_owed():
    """The later of the two counts."""
    node = NodeHealth()
    node.heard_ms = 100
    assert node.silent_since_ms(50) == 100
    assert node.silent_since_ms(200) == 200


def test_a_broker_is_silent_from_the_time_of_a_reply_made_in_its_place():
    """This holds for later requests too, until the broker sends a byte or owes no reply of that kind."""
    node = NodeHealth()
    node.heard_ms = 100
    node.on_answered_here(200)
    assert node.silent_since_ms(5_000) == 200
    node.heard_ms = 6_000
    assert node.silent_since_ms(5_000) == 6_000
    node.on_answered_here(7_000)
    assert node.silent_since_ms(9_000) == 7_000
    node.on_settled()
    assert node.silent_since_ms(9_000) == 7_000
    node.on_settled()
    assert node.silent_since_ms(9_000) == 9_000


def test_a_local_reply_for_another_reason_does_not_make_a_broker_silent():
    """The reason may be a drain, or a wait that was shortened."""
    node = NodeHealth()
    node.on_answered_here()
    assert node.silent_since_ms(5_000) == 5_000
    node.on_settled()


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
