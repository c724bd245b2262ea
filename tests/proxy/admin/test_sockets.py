"""The sockets of the admin server: listening ones, the path of the Unix socket, and the time of a send."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from bench.harness.ports import free_ports
from proxy.admin import send_timeout
from proxy.admin.send_timeout import SendTimeoutStream
from proxy.admin.sockets import bind_tcp, bind_unix, inode_of, unlink


@pytest.fixture
def narrow():
    """Set a umask that would let every user open the socket."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_unix_socket_can_be_opened_by_its_owner_only(tmp_path, narrow):
    """Its mode does not depend on the umask."""
    path = str(tmp_path / "s")
    with bind_unix(path, "admin.socket"):
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        unlink(path, inode_of(path))
    assert not os.path.lexists(path)


def test_only_a_dead_socket_is_replaced(tmp_path):
    """A process that crashed left it. A socket in use, a file named by mistake and a link stay."""
    path = str(tmp_path / "s")
    bind_unix(path, "admin.socket").close()
    assert os.path.lexists(path)
    bind_unix(path, "admin.socket").close()

    path = str(tmp_path / "s")
    with (
        bind_unix(path, "admin.socket"),
        pytest.raises(OSError, match=r"admin\.socket .*another process"),
    ):
        bind_unix(path, "admin.socket")
    assert os.path.lexists(path)

    file = tmp_path / "precious"
    file.write_text("x")
    with pytest.raises(OSError, match="not a socket"):
        bind_unix(str(file), "admin.socket")
    assert file.read_text() == "x"

    target, link = tmp_path / "s", tmp_path / "link"
    with bind_unix(str(target), "admin.socket"):
        link.symlink_to(target)
        with pytest.raises(OSError, match="not a socket"):
            bind_unix(str(link), "admin.socket")


@pytest.mark.parametrize("path", ["/nowhere/at/all", "x" * 200])
def test_a_path_that_cannot_be_bound_is_named(path):
    """The error names the setting too."""
    with pytest.raises(OSError, match=r"cannot listen on admin\.socket"):
        bind_unix(path, "admin.socket")


def test_a_port_in_use_is_named():
    """The error names the setting and the address."""
    port = free_ports()
    with (
        bind_tcp(f"127.0.0.1:{port}", "admin.listen"),
        pytest.raises(OSError, match=rf"cannot listen on admin\.listen 127\.0\.0\.1:{port}"),
    ):
        bind_tcp(f"127.0.0.1:{port}", "admin.listen")


def test_the_socket_file_of_another_process_is_not_removed(tmp_path):
    """The other process may start before this one has ended."""
    path, other = str(tmp_path / "s"), str(tmp_path / "other")
    with bind_unix(path, "admin.socket"), bind_unix(other, "admin.socket"):
        inode = inode_of(path)
        Path(other).replace(path)
        unlink(path, inode)
        assert os.path.lexists(path)
        unlink(str(tmp_path / "none"), inode)


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
