"""What a client has sent and nobody has read yet."""

from __future__ import annotations

import time

import pytest

from proxy.shell.unread import unread_bytes
from tests.support.sessions import Wire, make_engine
from tests.support.sockets import Bench


@pytest.fixture
def bench():
    made = Bench(make_engine())
    yield made
    made.close()


def test_it_is_what_stands_in_the_kernel(bench):
    """Nothing, what has come, and what is left of it once some is read."""
    client, _, session = bench.link()
    assert unread_bytes(session) == 0
    client.sendall(bytes(1000))
    give_up = time.monotonic() + 60
    while unread_bytes(session) < 1000:
        assert time.monotonic() < give_up
    session.handle.recv_into(memoryview(bytearray(300)))
    assert unread_bytes(session) == 700


def test_who_is_gone_has_nothing(bench):
    """Nor has a session that has no socket."""
    client, _, session = bench.link()
    end = session.handle
    client.close()
    bench.run()
    session.handle = end
    assert end.closed
    assert unread_bytes(session) == 0
    assert unread_bytes(Wire().session) == 0
