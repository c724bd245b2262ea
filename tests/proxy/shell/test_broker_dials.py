"""A broker is dialled when the first byte for it is there: a client that is silent, or is no client, costs none."""

from __future__ import annotations

import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.shell.acceptor import Acceptor
from proxy.shell.broker_dials import BrokerDials
from proxy.shell.dial import DialError
from proxy.shell.dialer import Upstream
from proxy.shell.listeners import Listeners
from proxy.shell.transport import PlainTransport
from tests.support.core.sessions import Watcher
from tests.support.messages import frames as f
from tests.support.messages.waiting import fetch_waiting
from tests.support.shell.sockets import arrived, reset, tcp_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.shell.sockets import Bench


class Dials:
    """A dialer whose brokers are the far ends of pairs, once they `may` be reached."""

    def __init__(self) -> None:
        self.far: list[socket.socket] = []
        self.asked: list[int | None] = []
        self.cancelled = 0
        self.may = trio.Event()
        self.error: Exception | None = None

    def direct(self, _node_id: int | None) -> None:
        """Return None: each dial has a task."""

    async def reach(self, node_id: int | None, _tried: object = None) -> Upstream:
        self.asked.append(node_id)
        try:
            await self.may.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        far, near = tcp_pair()
        self.far.append(far)
        return Upstream(PlainTransport(near), ("", 0))


class Proxy:
    """An acceptor whose event loop is stepped, and the connections of its clients."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.dials = Dials()
        self.observer = Watcher()
        self._address = ("127.0.0.1", free_ports())
        self.listeners = Listeners("127.0.0.1", [(7, self._address[1])])
        self.until = trio.Event()

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(self._address)
        client.sendall(sent)
        self.bench.far.append(client)
        return client

    async def settle(self) -> None:
        """Step until nothing happens."""
        for _ in range(100):
            await trio.lowlevel.checkpoint()
            self.bench.event_loop.step(0)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Proxy]:
    proxy = Proxy(bench)
    acceptor = Acceptor(bench.engine, bench.event_loop, proxy.observer, bench.clock, 100)
    dials = BrokerDials(bench.engine, bench.event_loop, proxy.dials, proxy.observer, bench.clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(dials.serve)
        nursery.start_soon(acceptor.serve, proxy.listeners, proxy.until)
        yield proxy
        nursery.cancel_scope.cancel()
    proxy.listeners.close()
    bench.far += proxy.dials.far


@pytest.mark.parametrize(
    "sent", [b"", f.heartbeat(1)[:4], f.heartbeat(1)[:11], b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_no_broker_is_dialled_before_a_request_is_there(bench, sent):
    """For a silent client, half a head, or bytes that are no request."""
    async with running(bench) as proxy:
        for _ in range(10):
            proxy.connect(sent)
        await proxy.settle()
        assert [each.ended for each in bench.engine.sessions] == [b"GET" in sent] * 10
        assert proxy.dials.asked == []
        bench.event_loop.close_all(CloseReason.DRAINED)
        assert bench.engine.sessions == set()
        assert bench.held_bytes == 0


async def test_the_first_request_is_sent_when_the_broker_is_there_in_any_pieces(bench):
    """All that came meanwhile follows in order, and the reply comes back."""
    requests = b"".join(f.heartbeat(number) for number in (1, 2, 3))
    async with running(bench) as proxy:
        client = proxy.connect()
        for at in range(0, len(requests), 5):
            client.sendall(requests[at : at + 5])
            await proxy.settle()
        assert proxy.dials.asked == [7]
        proxy.dials.may.set()
        await proxy.settle()
        (broker,) = proxy.dials.far
        assert arrived(broker) == requests
        broker.sendall(f.reply(1, b"\0" * 6))
        await proxy.settle()
        assert arrived(client) == f.reply(1, b"\0" * 6)
        client.sendall(f.heartbeat(4))
        await proxy.settle()
        assert arrived(broker) == f.heartbeat(4)
    assert bench.event_loop.arriving == 0


@pytest.mark.parametrize("leave", [socket.socket.close, reset])
async def test_a_client_that_leaves_has_its_dial_cancelled(bench, leave):
    """Or the broker gets its request, if the client only ended its stream; one that sent nothing costs no dial."""
    async with running(bench) as proxy:
        silent, speaker = proxy.connect(), proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert proxy.dials.asked == [7]
        speaker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for client in (silent, speaker):
            leave(client)
        bench.engine.advance(bench.clock.now_ms)
        await proxy.settle()
        for session in tuple(bench.engine.sessions):
            bench.event_loop.drop(session.handle, bench.clock.now_ms)
        await proxy.settle()
        assert proxy.dials.cancelled == 1
        assert proxy.dials.asked == [7]
        assert bench.engine.sessions == set()
        assert bench.held_bytes == bench.event_loop.arriving == bench.event_loop.open_sockets == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DialError(CloseReason.UPSTREAM_REFUSED, "no"), CloseReason.UPSTREAM_REFUSED),
        (RuntimeError("a bug"), CloseReason.INTERNAL),
    ],
)
async def test_a_broker_that_cannot_be_reached_ends_the_session(bench, error, reason):
    """Its client is disconnected, and its bytes are no longer counted."""
    async with running(bench) as proxy:
        client = proxy.connect(f.heartbeat(1))
        await proxy.settle()
        proxy.dials.error = error
        proxy.dials.may.set()
        await proxy.settle()
        assert client.recv(1) == b""
        client.close()
        await proxy.settle()
        assert [closed for closed, _ in bench.engine.observer.closed] == [reason]
        assert len(proxy.observer.internal) == (reason is CloseReason.INTERNAL)
        assert bench.held_bytes == 0


async def test_a_drain_waits_for_brokers_that_are_being_dialled(bench):
    """A request that was taken before it is sent and answered; one that came after it is not taken."""
    async with running(bench) as proxy:
        late, client = proxy.connect(), proxy.connect(f.heartbeat(1))
        await proxy.settle()
        proxy.until.set()
        bench.engine.drain()
        late.sendall(f.heartbeat(2))
        await proxy.settle()
        assert late.recv(1) == b""
        proxy.dials.may.set()
        await proxy.settle()
        (broker,) = proxy.dials.far
        assert arrived(broker) == f.heartbeat(1)
        broker.sendall(f.reply(1, b"\0" * 6))
        await proxy.settle()
        assert arrived(client) == f.reply(1, b"\0" * 6)
        assert client.recv(1) == b""


async def test_a_long_poll_whose_broker_is_being_dialled_is_answered_at_once_by_a_drain(bench):
    """Empty, as those that wait at their brokers; the dial is cancelled, because nothing is left to send."""
    async with running(bench) as proxy:
        client = proxy.connect(fetch_waiting(7, 10_000))
        await proxy.settle()
        bench.engine.drain()
        await proxy.settle()
        assert struct.unpack_from(">ii", arrived(client))[1] == 7
        assert client.recv(1) == b""
        assert proxy.dials.cancelled == 1
        client.close()
        await proxy.settle()
        assert bench.engine.sessions == set()
        assert bench.held_bytes == 0


async def test_the_end_of_a_drain_cancels_dials_and_makes_no_more(bench):
    """A client whose broker is dialled is disconnected, and one that sends its first request after that."""
    async with running(bench) as proxy:
        late = proxy.connect()
        proxy.connect(f.heartbeat(1))
        await proxy.settle()
    late.sendall(f.heartbeat(2))
    bench.run()
    assert proxy.dials.asked == [7]
    bench.event_loop.close_all(CloseReason.DRAIN_TIMEOUT)
    assert [reason for reason, _ in bench.engine.observer.closed] == [CloseReason.DRAINED] * 2
