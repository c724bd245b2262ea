"""The number of clients accepted, and the cost of a fault; test_app tests the rest with the whole proxy."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from bench.harness.ports import free_ports
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.shell.acceptor import EVICTION_MS, STORM_CLIENTS, Acceptor
from proxy.shell.listeners import Listeners
from proxy.shell.transport import PlainTransport, SecureClient
from proxy.tls.handshakes import Handshakes
from proxy.tls.listener import TlsListener
from proxy.tls.peer_names import CertificatePrincipals
from tests.support.core.sessions import Watcher
from tests.support.messages import frames as f
from tests.support.shell.tls import Contexts


async def test_a_client_counts_towards_the_limit_before_its_broker_is_dialled(bench, may_accept_of):
    """The limit holds while brokers are being dialled."""
    delays = Delays()
    acceptor = Acceptor(bench.engine, bench.event_loop, delays, bench.clock, 1)
    may_accept = await may_accept_of(acceptor)
    assert may_accept()
    session = bench.engine.connect("10.0.0.9", 40000, None)
    assert not may_accept()
    assert delays.told == [("max_connections", 1)]
    acceptor.max_connections = 2
    assert may_accept()
    session.release(0)


def test_the_proxy_is_full_of_clients_that_have_sent_a_request(bench):
    """Others may have to yield their places, so a flood of them does not make the proxy unready."""
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 1)
    client, _, session = bench.link()
    assert not acceptor.is_full
    client.sendall(f.heartbeat(1))
    bench.run()
    assert acceptor.is_full
    assert session in bench.engine.sessions


@pytest.mark.parametrize("limit", ["max_connections", "max_unauthenticated_connections"])
async def test_the_oldest_client_without_a_request_yields_its_place(bench, may_accept_of, limit):
    """After two seconds, and at once: its sockets are closed. Clients that have sent a request keep theirs."""
    most = {"max_connections": 3}.get(limit, 100)
    if limit != "max_connections":
        bench.engine.limit_connections(ConnectionLimits(max_unauthenticated=2))
    delays = Delays()
    acceptor = Acceptor(bench.engine, bench.event_loop, delays, bench.clock, most)
    may_accept = await may_accept_of(acceptor)
    speaker, _, spoken = bench.link()
    speaker.sendall(f.heartbeat(1))
    bench.run()
    silent, _, first = bench.link()
    _, _, second = bench.link()
    assert not may_accept()
    assert delays.told == [(limit, {"max_connections": 3}.get(limit, 2))]
    bench.clock.now_ms += EVICTION_MS
    assert may_accept()
    assert first.reason is CloseReason.EVICTED
    assert bench.engine.sessions == {spoken, second}
    assert silent.recv(1) == b""


async def test_a_rate_of_connections_delays_the_next_client(bench, may_accept_of):
    """It waits in the kernel until its second's share has come."""
    bench.engine.limit_connections(ConnectionLimits(max_rate=2))
    delays = Delays()
    acceptor = Acceptor(bench.engine, bench.event_loop, delays, bench.clock, 100)
    may_accept = await may_accept_of(acceptor)
    assert [may_accept() for _ in range(3)] == [True, True, False]
    assert delays.told == [("max_connection_creation_rate", 2)]
    bench.clock.now_ms += 500
    assert may_accept()


class Delays(Observer):
    """Remembers the limits that delayed a client."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def on_accept_delayed(self, limit: str, value: int) -> None:
        self.told.append((limit, value))


@asynccontextmanager
async def serving(acceptor: Acceptor) -> AsyncIterator[int]:
    """Serve clients of a free port until the end of the block; return the port."""
    port = free_ports()
    listeners = Listeners("127.0.0.1", [(None, port)])
    until = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, listeners, until)
        await wait_all_tasks_blocked()
        yield port
        until.set()
    listeners.close()


@pytest.mark.parametrize("place", ["connect", "attach"])
async def test_an_exception_about_one_client_ends_neither_its_listener_nor_the_next_client(
    bench, monkeypatch, place
):
    """The first client is closed and forgotten, and the fault is reported; the second one is served."""
    observer = Watcher()
    acceptor = Acceptor(bench.engine, bench.event_loop, observer, bench.clock, 10)
    room = {"connect": bench.engine, "attach": bench.event_loop}[place]
    whole = getattr(room, place)
    calls: list[object] = []

    def fail_once(*args, **options):
        calls.append(args)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return whole(*args, **options)

    monkeypatch.setattr(room, place, fail_once)
    async with serving(acceptor) as port:
        first = await trio.open_tcp_stream("127.0.0.1", port)
        bench.event_loop.step(0)
        with suppress(trio.BrokenResourceError):
            assert await first.receive_some(1) == b""
        second = await trio.open_tcp_stream("127.0.0.1", port)
        bench.event_loop.step(0)
        assert bench.event_loop.open_sockets == 1
    assert [str(error) for error in observer.internal] == ["a bug"]
    assert len(bench.engine.sessions) == 1
    for stream in (first, second):
        await stream.aclose()


async def test_a_silent_client_yields_its_place(bench, may_accept_of):
    """At once: no broker is dialled for it, so nothing has to end first."""
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 1)
    may_accept = await may_accept_of(acceptor)
    async with serving(acceptor) as port, await trio.open_tcp_stream("127.0.0.1", port) as client:
        bench.event_loop.step(0)
        assert bench.engine.sessions
        assert not may_accept()
        bench.clock.now_ms += EVICTION_MS
        assert may_accept()
        with suppress(trio.BrokenResourceError):
            assert await client.receive_some(1) == b""
    assert bench.engine.observer.closed == [
        (CloseReason.EVICTED, "no request yet, and its place was needed")
    ]


async def test_in_a_storm_a_client_is_accepted_each_millisecond(bench):
    """While many have sent no request: what they send at once would delay the requests of all others."""
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 1000)
    async with serving(acceptor) as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(STORM_CLIENTS + 20)]
        bench.far += clients
        bench.run()
        assert len(bench.engine.sessions) == STORM_CLIENTS
        for more in range(1, 4):
            bench.clock.now_ms += 1
            bench.run()
            assert len(bench.engine.sessions) == STORM_CLIENTS + more
        for client in clients:
            client.sendall(f.heartbeat(1))
        bench.clock.now_ms += 1
        bench.run()
        assert len(bench.engine.sessions) == len(clients)


async def test_a_reload_of_the_limits_reaches_handshakes_that_wait(bench, tmp_path):
    """Without a further client: they would wait until the next one otherwise."""
    handshakes = Handshakes(bench.event_loop)
    principals = CertificatePrincipals("subject", str)
    listener = TlsListener(Contexts.make(tmp_path).server, handshakes, principals, bench.clock)
    bench.engine.limit_connections(ConnectionLimits(max_tls_handshakes=3))
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 1, listener)
    assert handshakes._places._limit == 3
    bench.engine.limit_connections(ConnectionLimits(max_tls_handshakes=5))
    acceptor.limit(7)
    assert (handshakes._places._limit, acceptor.max_connections) == (5, 7)


async def test_a_client_in_its_tls_handshake_yields_its_place_too(bench, may_accept_of, tmp_path):
    """It has said nothing; its socket is closed and the place is free."""
    listener = TlsListener(
        Contexts.make(tmp_path).server,
        Handshakes(bench.event_loop),
        CertificatePrincipals("subject", str),
        bench.clock,
    )
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 1, listener)
    may_accept = await may_accept_of(acceptor)
    async with serving(acceptor) as port, await trio.open_tcp_stream("127.0.0.1", port) as client:
        bench.event_loop.step(0)
        assert bench.engine.connections.handshaking == 1
        assert not may_accept()
        bench.clock.now_ms += EVICTION_MS
        assert may_accept()
        with suppress(trio.BrokenResourceError):
            assert await client.receive_some(1) == b""
    assert not bench.engine.sessions
    assert bench.engine.connections.of_address("127.0.0.1") == 0
    assert bench.engine.connections.handshaking == 0


LASTS_MS = 60_000


class Secured:
    """A listener that has made the handshake, with a client whose certificate ends at `ends_ms`."""

    def __init__(self, ends_ms: int) -> None:
        self._ends_ms = ends_ms

    def limit(self, limits: ConnectionLimits) -> None:
        """Do nothing: there is one client."""

    async def secure(
        self, accepted: socket.socket, node_id: int | None, _address: str
    ) -> SecureClient:
        return SecureClient(PlainTransport(accepted), node_id, "app", self._ends_ms)


async def test_a_connection_ends_when_the_certificate_of_its_client_does(bench):
    """The session has the certificate's user from its beginning."""
    tls = Secured(bench.clock() + LASTS_MS)
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 10, tls)
    async with serving(acceptor) as port:
        client = socket.create_connection(("127.0.0.1", port))
        bench.event_loop.step(0)
        while not any(each.handle for each in bench.engine.sessions):
            await trio.lowlevel.checkpoint()
        (session,) = bench.engine.sessions
        assert (session.peer.user, session.peer.principal_source) == ("app", "tls")
        bench.clock.now_ms += LASTS_MS - 1
        bench.run()
        assert not session.ended
        bench.clock.now_ms += 1
        bench.run()
        assert session.reason is CloseReason.CERTIFICATE_EXPIRED
        assert client.recv(1) == b""
        client.close()
