"""Sending and receiving on a connection that the event loop does not have yet."""

import socket
from collections.abc import Iterator

import pytest
import trio

from proxy.shell.direct_io import receive_some, send_all
from proxy.shell.transport import PlainTransport

SIZE = 4 << 20


@pytest.fixture
def pair() -> Iterator[tuple[PlainTransport, PlainTransport]]:
    """Return two connected transports."""
    listener = socket.create_server(("127.0.0.1", 0))
    one = PlainTransport(socket.create_connection(listener.getsockname()))
    other = PlainTransport(listener.accept()[0])
    yield one, other
    for each in (one, other, listener):
        each.close()


async def test_more_than_the_kernel_takes_is_sent_when_there_is_room(
    pair: tuple[PlainTransport, PlainTransport],
) -> None:
    """All bytes arrive in order, then the end of the stream."""
    one, other = pair
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


async def test_a_lost_connection_is_an_os_error(
    pair: tuple[PlainTransport, PlainTransport],
) -> None:
    """Sending to a closed peer fails in the end, and does not wait for ever."""
    one, other = pair
    other.close()
    with pytest.raises(OSError, match=r"."):
        await send_all(one, bytes(SIZE))
