"""The broker that a server name selects."""

import pytest

from proxy.shell.tls.server_names import ServerNames

NAMES = ServerNames("Kafka.example.com", {0: "broker-0.example.com", 12: "Broker-12.example.com"})


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("kafka.example.com", None),
        ("KAFKA.example.com.", None),
        ("broker-0.example.com", 0),
        ("BROKER-12.EXAMPLE.com", 12),
    ],
)
def test_a_name_selects_a_node_or_the_bootstrap_in_any_case(name, node):
    """A dot at the end is the same name."""
    assert NAMES.knows(name)
    assert NAMES.node_of(name) == node


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "example.com",
        "broker-1.example.com",
        "broker-00.example.com",
        "a.broker-0.example.com",
    ],
)
def test_any_other_name_and_none_at_all_is_not_known(name):
    """No name is mapped by its form alone."""
    assert not NAMES.knows(name)
