"""Socket addresses are known without a resolver where a host is an IP address."""

import socket

import pytest

from proxy.shell.connecting import socket_address


@pytest.mark.parametrize(
    ("host", "family"),
    [
        ("127.0.0.1", socket.AF_INET),
        ("::1", socket.AF_INET6),
        ("kafka-1", None),
        ("fe80::1%eth0", None),
        ("1.2.3", None),
        ("a\0b", None),
        ("", None),
    ],
)
def test_only_an_ip_address_is_known_without_a_resolver(host, family):
    """One with a zone needs the number of its interface."""
    assert socket_address(host, 9092) == (family and (family, (host, 9092)))


def test_an_ip_address_is_named_as_the_system_names_it():
    """So a broker has one name, whichever way it was dialled."""
    assert socket_address("0:0:0:0:0:0:0:1", 9092) == (socket.AF_INET6, ("::1", 9092))
