"""One connection of a client of our own."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from bench.memory.connection import Connection, Lost
from tests.support import frames as f
from tests.support.sockets import receive, reset

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """One connection, and the far end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Connection(listening.getsockname()[1], "127.0.0.2")
        far, address = listening.accept()
    assert address[0] == "127.0.0.2"
    far.settimeout(5)
    yield client, far
    client.close()
    far.close()


def reply_of(client: Connection) -> bytes | Lost | None:
    """The next thing that is read, once there is something."""
    assert select.select([client], [], [], 5)[0]
    return client.read()


def test_a_frame_goes_out_in_the_pieces_that_were_asked_for(pair: Pair) -> None:
    """What is unsent is known, and wanted while there is any."""
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


def test_a_reply_is_there_when_all_of_it_is(pair: Pair) -> None:
    """A part of it is nothing yet."""
    client, far = pair
    reply = f.heartbeat_reply(1)
    assert client.read() is None
    for piece in (reply[:2], reply[2:6]):
        far.sendall(piece)
        assert reply_of(client) is None
    far.sendall(reply[6:])
    assert reply_of(client) == reply[4:]


def test_who_was_ended_is_told_how(pair: Pair) -> None:
    """A close and a reset are values, when reading and when writing."""
    client, far = pair
    reset(far)
    found = reply_of(client)
    assert isinstance(found, Lost)
    assert "Reset" in found.how
    client.ask(f.heartbeat(1), 0.0)
    assert isinstance(client.write(), Lost)


def test_a_close_is_an_end_too(pair: Pair) -> None:
    """End of stream before the reply."""
    client, far = pair
    far.close()
    assert reply_of(client) == Lost("closed")


def test_a_frame_larger_than_the_kernel_takes_is_written_by_and_by(pair: Pair) -> None:
    """Nothing blocks while the far side does not read."""
    client, _ = pair
    client.ask(bytes(64 << 20), 0.0)
    for _ in range(3):
        assert client.write() is None
    assert 0 < client.unsent_bytes < 64 << 20


def test_a_question_may_be_waited_for() -> None:
    """Send all, read all; without an answer it is a fault."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(closing(Connection(listening.getsockname()[1])))
        far, _ = listening.accept()
        far.sendall(f.heartbeat_reply(1))
        assert client.demand(f.heartbeat(1)) == struct.pack(">ih", 1, 0)
        far.close()
        with pytest.raises(ConnectionError):
            client.demand(f.heartbeat(2))


def test_a_reset_is_seen_at_the_far_side(pair: Pair) -> None:
    """Closed by RST: what the far side reads next is a fault, not an end."""
    client, far = pair
    client.close(reset=True)
    with pytest.raises(ConnectionResetError):
        far.recv(1)
