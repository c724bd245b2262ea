"""The bytes that a proxy holds, from the kernel's figures."""

import os
import select
import socket
from contextlib import ExitStack, suppress

import pytest

from bench.harness import BenchError
from bench.memory.held import TcpSocket, pair, tcp_sockets
from tests.support.shell.sockets import tcp_pair

BROKER = ("127.0.0.1", 9092)
CLIENT = "127.0.0.2"


def client(given: int, port: int = 1, host: str = CLIENT) -> TcpSocket:
    """Return a proxy's socket to a client that was given so many bytes."""
    return TcpSocket(0, (host, port), 0, given)


def upstream(taken: int) -> TcpSocket:
    """Return a proxy's socket to the broker, from which so many bytes were taken."""
    return TcpSocket(0, BROKER, taken, 0)


def test_the_kernel_counts_read_and_written_bytes() -> None:
    """Of sent bytes only those that the process has read count; all that it has written count."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        far = stack.enter_context(socket.create_connection(listening.getsockname()))
        near, _ = listening.accept()
        stack.enter_context(near)
        far.sendall(b"x" * 1000)
        assert select.select([near], [], [], 5)[0]
        assert len(near.recv(300)) == 300
        near.sendall(b"y" * 70)
        (found,) = [each for each in tcp_sockets() if each.inode == os.fstat(near.fileno()).st_ino]
        assert found.remote == far.getsockname()
        assert found.read_bytes == 300
        assert found.written_bytes in (70, 71)  # a SYN may be among what was acknowledged


def test_bytes_that_the_kernel_has_not_sent_are_told_apart() -> None:
    """The peer reads nothing, so only a part of what was written has left."""
    far, near = tcp_pair()
    with far, near:
        near.setblocking(False)
        with suppress(BlockingIOError):
            while near.send(bytes(1 << 16)):
                pass
        (found,) = [each for each in tcp_sockets() if each.inode == os.fstat(near.fileno()).st_ino]
        assert 0 < found.unsent_bytes < found.written_bytes


def test_clients_and_their_brokers_are_paired_in_order() -> None:
    """Other connections are left out, and so is one without a broker."""
    mine = [
        *(client(5, 9, "127.0.0.1"), upstream(7)),
        client(0, 8, "127.0.0.1"),
        *(client(100, 1), upstream(150)),
        *(client(100, 2), upstream(400)),
        upstream(0),
    ]
    assert pair(mine, CLIENT, BROKER) == [50, 300]


def test_impossible_figures_are_an_error() -> None:
    """A client cannot get bytes that have not arrived, and needs a broker's connection."""
    with pytest.raises(BenchError, match="the pairs are wrong"):
        pair([client(200), upstream(100)], CLIENT, BROKER)
    with pytest.raises(BenchError, match="no connection to the broker"):
        pair([client(200, 1), client(200, 2), upstream(300)], CLIENT, BROKER)
