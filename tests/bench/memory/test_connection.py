"""One connection of the bench's client."""

import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from bench.memory.connection import Connection, Lost
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive, reset

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """One connection, and its far end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Connection(listening.getsockname()[1], "127.0.0.2")
        far, address = listening.accept()
    assert address[0] == "127.0.0.2"
    far.settimeout(60)
    yield client, far
    client.close()
    far.close()


def reply_of(client: Connection) -> bytes | Lost | None:
    """Return the next read, once there is one."""
    assert select.select([client], [], [], 5)[0]
    return client.read()


def test_a_frame_is_sent_in_the_requested_parts(pair: Pair) -> None:
    """The unsent bytes are known, and writing is needed while there are any."""
    client, far = pair
    frame = f.heartbeat(1)
    client.ask(frame, 7.0)
    assert client.wanted == select.EPOLLIN | select.EPOLLOUT
    assert client.write(5) is None
    assert client.unsent_bytes == len(frame) - 5
    assert receive(far, 5) == frame[:5]
    assert client.write() is None
    assert receive(far, len(frame) - 5) == frame[5:]
    assert client.wanted == select.EPOLLIN
    assert client.began_s == 7.0


def test_a_reply_is_returned_when_it_is_complete(pair: Pair) -> None:
    """A part of it returns None."""
    client, far = pair
    reply = f.heartbeat_reply(1)
    assert client.read() is None
    for piece in (reply[:2], reply[2:6]):
        far.sendall(piece)
        assert reply_of(client) is None
    far.sendall(reply[6:])
    assert reply_of(client) == reply[4:]


def test_the_kind_of_the_end_is_a_value(pair: Pair) -> None:
    """A close and a reset are distinguished, when reading and when writing."""
    client, far = pair
    reset(far)
    found = reply_of(client)
    assert isinstance(found, Lost)
    assert "Reset" in found.how
    client.ask(f.heartbeat(1), 0.0)
    assert isinstance(client.write(), Lost)


def test_a_frame_larger_than_the_kernels_buffer_is_written_in_parts(pair: Pair) -> None:
    """Nothing blocks while the far side does not read."""
    client, _ = pair
    client.ask(bytes(64 << 20), 0.0)
    for _ in range(3):
        assert client.write() is None
    assert 0 < client.unsent_bytes < 64 << 20


def test_a_request_may_wait_for_its_reply() -> None:
    """It sends all and reads all; without a reply it raises."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(closing(Connection(listening.getsockname()[1])))
        far, _ = listening.accept()
        far.sendall(f.heartbeat_reply(1))
        assert client.demand(f.heartbeat(1)) == struct.pack(">ih", 1, 0)
        far.close()
        with pytest.raises(ConnectionError):
            client.demand(f.heartbeat(2))
