"""A stream that limits the time of a send."""

import os
import socket

import pytest
import trio
import trio.testing

from proxy.admin import send_timeout
from proxy.admin.send_timeout import SendTimeoutStream


def pair(family: int = socket.AF_UNIX) -> tuple[SendTimeoutStream, trio.SocketStream]:
    ours, theirs = socket.socketpair(family)
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (ours, theirs)]
    return SendTimeoutStream(streams[0]), streams[1]


async def test_a_send_to_a_peer_that_does_not_read_fails_after_its_timeout(autojump_clock):
    """A shield against cancellation does not prevent it."""
    stream, theirs = pair()
    with trio.CancelScope(shield=True), pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"x" * (8 << 20))
    assert trio.current_time() == pytest.approx(send_timeout.MAX_SEND_S)
    await stream.aclose()
    await theirs.aclose()


async def test_dropping_a_connection_ends_a_waiting_send_and_receive(nursery):
    """Both raise at once."""
    stream, theirs = pair()
    ended = []

    async def wait(call, *args) -> None:
        try:
            await call(*args)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            ended.append(call.__name__)

    nursery.start_soon(wait, stream.send_all, b"x" * (8 << 20))
    nursery.start_soon(wait, stream.receive_some)
    await trio.testing.wait_all_tasks_blocked()
    stream.drop()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(ended) == ["receive_some", "send_all"]
    await theirs.aclose()


async def test_bytes_and_end_of_stream_pass_unchanged():
    """The wrapper changes nothing else."""
    stream, theirs = pair()
    await stream.send_all(bytearray(b"abc"))
    assert await theirs.receive_some() == b"abc"
    await theirs.send_all(b"def")
    assert await stream.receive_some(2) == b"de"
    await stream.send_eof()
    assert await theirs.receive_some() == b""
    await stream.aclose()
    await theirs.aclose()


async def test_the_user_id_of_a_unix_sockets_peer_is_known():
    """A TCP peer has none."""
    stream, theirs = pair()
    assert stream.peer() == f"uid {os.getuid()} pid {os.getpid()}"
    await stream.aclose()
    await theirs.aclose()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()) as other:
        assert SendTimeoutStream(other).peer() == ""
