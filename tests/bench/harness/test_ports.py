"""Free ports, and ports that accept connections."""

import socket

from bench.harness.ports import accepts, free_ports


def test_free_ports_are_consecutive_and_below_the_ephemeral_range() -> None:
    """Every one of them can be bound, and no port is returned twice."""
    first, other = free_ports(count=3), free_ports(count=3)
    assert not set(range(first, first + 3)) & set(range(other, other + 3))
    for port in range(first, first + 3):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
        assert 15_000 <= port < 31_000


def test_a_port_accepts_while_a_socket_listens() -> None:
    """Not before, and not after it is closed."""
    port = free_ports()
    assert not accepts("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert accepts("127.0.0.1", port)
    assert not accepts("127.0.0.1", port)
