"""A plain TCP connection as the event loop sees it: it never blocks, and ends one direction at a time."""

from __future__ import annotations

import select
import socket
import struct

import pytest

from proxy.shell.transport import PlainTransport
from tests.support.sockets import receive, reset, tcp_pair


@pytest.fixture
def pair():
    far, near = tcp_pair()
    transport = PlainTransport(near)
    yield far, near, transport
    transport.close()
    far.close()


def readable(transport: PlainTransport) -> None:
    """Wait until the kernel has something for it."""
    assert select.select([transport], [], [], 5)[0]


def test_bytes_go_out_and_come_in(pair):
    """Into the reader's own buffer; what came is a number of bytes."""
    far, _, transport = pair
    assert transport.send(b"hello") == 5
    assert receive(far, 5) == b"hello"
    far.sendall(b"there")
    readable(transport)
    buf = bytearray(b"." * 9)
    assert transport.recv_into(memoryview(buf)[2:]) == 5
    assert buf == b"..there.."


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_whatever_the_hub_holds_can_be_sent(pair, data):
    """A slice of the scratch buffer, or a piece of an outbox."""
    far, _, transport = pair
    assert transport.send(data) == 3
    assert receive(far, 3) == b"abc"


def test_nothing_to_read_is_not_now(pair):
    """It says so at once instead of waiting."""
    _, _, transport = pair
    with pytest.raises(BlockingIOError):
        transport.recv_into(memoryview(bytearray(10)))


def test_a_peer_that_does_not_read_is_not_now_either(pair):
    """A send takes what the kernel takes, then nothing."""
    _, _, transport = pair
    sizes = []
    with pytest.raises(BlockingIOError):
        sizes.extend(iter(lambda: transport.send(bytes(1 << 20)), None))
    assert sizes
    assert all(0 < size <= 1 << 20 for size in sizes)


def test_small_replies_do_not_wait_for_company(pair):
    """Nagle's algorithm would hold a reply for the acknowledgement of the one before."""
    _, near, _ = pair
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_shutdown_ends_our_direction_only(pair):
    """Behind what was sent; the other side may still answer."""
    far, _, transport = pair
    transport.send(b"last words")
    transport.shutdown()
    assert receive(far, 100) == b"last words"
    far.sendall(b"answer")
    readable(transport)
    assert transport.recv_into(memoryview(bytearray(100))) == 6
    with pytest.raises(BrokenPipeError):
        transport.send(b"more")


def test_the_other_sides_end_is_read_as_no_bytes(pair):
    """Not as an error."""
    far, _, transport = pair
    far.close()
    readable(transport)
    assert transport.recv_into(memoryview(bytearray(10))) == 0


def test_a_broken_connection_is_an_error_of_the_system(pair):
    """Any OSError but "not now" says it is gone."""
    far, _, transport = pair
    reset(far)
    readable(transport)
    with pytest.raises(ConnectionResetError):
        transport.recv_into(memoryview(bytearray(10)))


def test_closing_gives_the_descriptor_back(pair):
    """The number is the socket's until then."""
    far, near, transport = pair
    assert transport.fileno() == near.fileno() >= 0
    transport.close()
    assert near.fileno() == -1
    assert receive(far, 10) == b""


def test_closing_with_unread_bytes_resets(pair):
    """Why the event loop lingers: what was sent just before may be lost to the peer."""
    far, _, transport = pair
    far.sendall(b"unread")
    readable(transport)
    transport.close()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
    with pytest.raises(ConnectionResetError):
        receive(far, 10)


def test_a_peer_has_finished_when_its_last_byte_was_read(pair):
    """Not while nobody knows, nor while something of it waits; asking reads nothing."""
    far, _, transport = pair
    assert not transport.is_finished()
    far.sendall(b"last")
    far.shutdown(socket.SHUT_WR)
    readable(transport)
    assert not transport.is_finished()
    assert transport.recv_into(memoryview(bytearray(10))) == 4
    assert transport.is_finished()
