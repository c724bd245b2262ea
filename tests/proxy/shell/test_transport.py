"""A plain TCP transport never blocks and can end one direction at a time."""

import select
import socket
import struct

import pytest
import trio

from proxy.shell.dial import receive_some, send_all
from proxy.shell.transport import PlainTransport
from tests.support.shell.sockets import receive, reset, tcp_pair


@pytest.fixture
def pair():
    far, near = tcp_pair()
    transport = PlainTransport(near)
    yield far, near, transport
    transport.close()
    far.close()


def readable(transport: PlainTransport) -> None:
    """Wait until the transport has bytes or an end to read."""
    assert select.select([transport], [], [], 5)[0]


def test_bytes_go_out_and_come_in(pair):
    """`send` and `recv_into` return the number of bytes; a read fills the caller's buffer."""
    far, _, transport = pair
    assert transport.send(b"hello") == 5
    assert receive(far, 5) == b"hello"
    far.sendall(b"there")
    readable(transport)
    buf = bytearray(b"." * 9)
    assert transport.recv_into(memoryview(buf)[2:]) == 5
    assert buf == b"..there.."


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_every_kind_of_buffer_can_be_sent(pair, data):
    """The event loop sends slices of its scratch buffer and pieces of an outbox."""
    far, _, transport = pair
    assert transport.send(data) == 3
    assert receive(far, 3) == b"abc"


def test_a_call_that_would_wait_raises_blocking_io_error(pair):
    """A read never waits; sends before that return the number of bytes that the kernel accepted."""
    _, _, transport = pair
    with pytest.raises(BlockingIOError):
        transport.recv_into(memoryview(bytearray(10)))

    sizes = []
    with pytest.raises(BlockingIOError):
        sizes.extend(iter(lambda: transport.send(bytes(1 << 20)), None))
    assert sizes
    assert all(0 < size <= 1 << 20 for size in sizes)


def test_small_replies_are_sent_at_once(pair):
    """TCP_NODELAY is set: Nagle's algorithm would delay a reply until the previous one is acknowledged."""
    _, near, _ = pair
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_shutdown_ends_the_outgoing_direction_only(pair):
    """The end of stream follows the bytes sent before; the peer may still answer."""
    far, _, transport = pair
    transport.send(b"last words")
    transport.shutdown()
    assert receive(far, 100) == b"last words"
    far.sendall(b"answer")
    readable(transport)
    assert transport.recv_into(memoryview(bytearray(100))) == 6
    with pytest.raises(BrokenPipeError):
        transport.send(b"more")


def test_end_of_stream_is_read_as_zero_bytes(pair):
    """An orderly end is not an error."""
    far, _, transport = pair
    far.close()
    readable(transport)
    assert transport.recv_into(memoryview(bytearray(10))) == 0


def test_a_reset_connection_raises_an_os_error(pair):
    """A read after a reset raises ConnectionResetError."""
    far, _, transport = pair
    reset(far)
    readable(transport)
    with pytest.raises(ConnectionResetError):
        transport.recv_into(memoryview(bytearray(10)))


def test_closing_gives_the_descriptor_back(pair):
    """`fileno` is the socket's number until `close`, which ends the connection."""
    far, near, transport = pair
    assert transport.fileno() == near.fileno() >= 0
    transport.close()
    assert near.fileno() == -1
    assert receive(far, 10) == b""


def test_closing_with_unread_bytes_resets(pair):
    """A reset may discard bytes that were sent just before, which is why the event loop lingers."""
    far, _, transport = pair
    far.sendall(b"unread")
    readable(transport)
    transport.close()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
    with pytest.raises(ConnectionResetError):
        receive(far, 10)


def test_a_peer_is_finished_when_its_last_byte_was_read(pair):
    """It is not while bytes or the end have not arrived; `is_finished` reads nothing."""
    far, _, transport = pair
    assert not transport.is_finished()
    far.sendall(b"last")
    far.shutdown(socket.SHUT_WR)
    readable(transport)
    assert not transport.is_finished()
    assert transport.recv_into(memoryview(bytearray(10))) == 4
    assert transport.is_finished()


SIZE = 4 << 20


async def test_more_than_the_kernel_takes_is_sent_when_there_is_room() -> None:
    """All bytes arrive in order, then the end of the stream."""
    one, other = map(PlainTransport, tcp_pair())
    data = bytes(range(256)) * (SIZE // 256)
    received = bytearray()

    async def send() -> None:
        await send_all(one, data)
        one.shutdown()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while more := await receive_some(other):
            received += more
    assert received == data
    one.close()
    other.close()


async def test_a_lost_connection_is_an_os_error() -> None:
    """Sending to a closed peer fails in the end, and does not wait for ever."""
    one, other = map(PlainTransport, tcp_pair())
    other.close()
    with pytest.raises(OSError, match=r"."):
        await send_all(one, bytes(SIZE))
    one.close()
