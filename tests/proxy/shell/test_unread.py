"""The number of bytes that a client has sent and Sluice has not read yet."""

from __future__ import annotations

import time

from proxy.shell.unread import unread_bytes
from tests.support.sessions import Wire


def test_unread_bytes_are_the_bytes_in_the_kernels_receive_buffer(bench):
    """The number is 0 at first, grows with what arrives, and falls with what is read."""
    client, _, session = bench.link()
    assert unread_bytes(session) == 0
    client.sendall(bytes(1000))
    give_up = time.monotonic() + 60
    while unread_bytes(session) < 1000:
        assert time.monotonic() < give_up
    session.handle.recv_into(memoryview(bytearray(300)))
    assert unread_bytes(session) == 700


def test_a_session_without_an_open_socket_has_no_unread_bytes(bench):
    """The number is 0 after the socket is closed, and for a session that never had one."""
    client, _, session = bench.link()
    end = session.handle
    client.close()
    bench.run()
    session.handle = end
    assert end.closed
    assert unread_bytes(session) == 0
    assert unread_bytes(Wire().session) == 0
