"""PROXY headers over real sockets: who the client is, and that a wrong header costs its own connection only."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from bench.harness.ports import free_ports
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.shell.acceptor import EVICTION_MS, Acceptor
from proxy.shell.listeners import Listeners
from proxy.shell.proxied_clients import HEADER_S, ProxiedClients
from proxy.tls.handshakes import Handshakes
from proxy.tls.listener import TlsListener
from proxy.tls.peer_names import CertificatePrincipals
from tests.support.messages import frames as f
from tests.support.messages.proxy_headers import SIGNATURE, binary, line
from tests.support.shell.tls import Contexts

HERE = ("127.0.0.0/8",)


@asynccontextmanager
async def accepting(bench, *, proxies=HERE, places: int = 100, tls=None):
    """Return an acceptor at work, and a function that connects a client that sends these bytes."""
    acceptor = Acceptor(
        bench.engine, bench.event_loop, Observer(), bench.clock, places, tls, proxies
    )
    port = free_ports()
    listeners = Listeners("127.0.0.1", [(None, port)])
    until = trio.Event()

    async def connect(*pieces: bytes) -> trio.SocketStream:
        client = await trio.open_tcp_stream("127.0.0.1", port)
        bench.event_loop.step(0)
        for piece in pieces:
            await client.send_all(piece)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
        return client

    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, listeners, until)
        await wait_all_tasks_blocked()
        yield acceptor, connect
        until.set()
    listeners.close()


async def sessions(bench, count: int) -> list[tuple[str, int]]:
    """Wait for so many sessions; return their clients' addresses."""
    while len(bench.engine.sessions) < count:
        await trio.lowlevel.checkpoint()
    return sorted((each.peer.host, each.peer.port) for each in bench.engine.sessions)


async def closed(bench, count: int) -> list[tuple[CloseReason, str]]:
    """Wait for so many clients that were closed; return why."""
    while len(bench.engine.observer.closed) < count:
        await trio.lowlevel.checkpoint()
    return bench.engine.observer.closed


@pytest.mark.parametrize("header", [line, binary], ids=["v1", "v2"])
@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8::7"])
async def test_the_client_is_the_one_that_the_header_names(bench, header, host):
    """In whichever pieces it comes; the address of the load balancer counts for nothing."""
    data = header(host, 40123)
    async with accepting(bench) as (_, connect):
        whole = await connect(data + f.heartbeat(1))
        slow = await connect(*(data[at : at + 1] for at in range(len(data))), f.heartbeat(1))
        assert await sessions(bench, 2) == [(host, 40123)] * 2
        assert bench.engine.connections.of_address("127.0.0.1") == 0
        assert bench.engine.connections.of_address(host) == 2
        await whole.aclose()
        await slow.aclose()


async def test_limits_of_an_address_hold_for_the_client_and_not_for_its_load_balancer(bench):
    """Else all clients of a load balancer would share one limit."""
    bench.engine.limit_connections(ConnectionLimits(max_per_ip=1))
    async with accepting(bench) as (_, connect):
        clients = [await connect(line(f"203.0.113.{n}", 1)) for n in range(5)]
        assert len(await sessions(bench, 5)) == 5
        clients.append(await connect(line("203.0.113.3", 2)))
        ((reason, detail),) = await closed(bench, 1)
        assert reason is CloseReason.MAX_CONNECTIONS_PER_IP
        assert detail.startswith("203.0.113.3 has 1 connections")
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (f.heartbeat(1), "no PROXY header: the connection begins with"),
        (b"PROXY TCP4 nonsense\r\n", "malformed"),
        (SIGNATURE + b"\x21\x11\xff\xff", "at most 4096"),
    ],
)
async def test_a_wrong_header_costs_its_own_connection_only(bench, data, words):
    """A client that comes straight from a load balancer's network is refused, and named."""
    async with accepting(bench) as (_, connect):
        other = await connect(line("203.0.113.7", 1))
        wrong = await connect(data)
        with suppress(trio.BrokenResourceError):
            assert await wrong.receive_some(1) == b""
        ((reason, detail),) = await closed(bench, 1)
        assert reason is CloseReason.PROXY_HEADER
        assert words in detail
        assert await sessions(bench, 1) == [("203.0.113.7", 1)]
        await other.aclose()
        await wrong.aclose()


async def test_a_health_check_of_the_load_balancer_is_served_as_itself(bench):
    """LOCAL and UNKNOWN name no client; one that says nothing and leaves is not worth a line."""
    local = SIGNATURE + b"\x20\x00\x00\x00"
    async with accepting(bench) as (acceptor, connect):
        silent = await connect()
        await silent.aclose()
        clients = [await connect(local), await connect(b"PROXY UNKNOWN\r\n")]
        assert {host for host, _ in await sessions(bench, 2)} == {"127.0.0.1"}
        while acceptor._handshaking:
            await trio.lowlevel.checkpoint()
        assert bench.engine.observer.closed == []
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize("secured", [False, True])
async def test_a_drain_closes_a_client_whose_header_or_hello_is_half_here(bench, tmp_path, secured):
    """It has sent no request yet, so it is owed no reply; nothing stays counted for it."""
    tls = None
    if secured:
        principals = CertificatePrincipals("subject", str)
        handshakes = Handshakes(bench.event_loop)
        tls = TlsListener(Contexts.make(tmp_path).server, handshakes, principals, bench.clock)
    half = line("203.0.113.7", 1) + b"\x16\x03\x01\x02\x00\x01" if secured else b"PROXY TCP4 "
    async with accepting(bench, tls=tls) as (acceptor, connect):
        client = await connect(half)
        while not acceptor._handshaking:
            await trio.lowlevel.checkpoint()
    with suppress(trio.BrokenResourceError):
        assert await client.receive_some(1) == b""
    assert bench.engine.connections.handshaking == 0
    assert bench.engine.sessions == set()
    assert bench.event_loop.arriving == 0
    await client.aclose()


async def test_a_header_that_never_ends_is_given_up(bench, autojump_clock):
    """After HEADER_S, however slowly its bytes drip."""
    async with accepting(bench) as (acceptor, connect):
        client = await connect(b"PROXY TCP4 ")
        ((reason, detail),) = await closed_after(bench, HEADER_S)
        assert reason is CloseReason.PROXY_HEADER
        assert detail == f"no PROXY header within {HEADER_S:g} s"
        assert not acceptor._handshaking
        await client.aclose()


async def closed_after(bench, seconds: float) -> list[tuple[CloseReason, str]]:
    """Return what is closed when this time has passed."""
    await trio.sleep(seconds + 0.1)
    return bench.engine.observer.closed


async def test_a_client_without_its_header_yields_its_place(bench, may_accept_of):
    """As one in its TLS handshake does: the places of clients without a request are not held by silence."""
    async with accepting(bench, places=1) as (acceptor, connect):
        may_accept = await may_accept_of(acceptor)
        client = await connect(b"PROXY")
        while not acceptor._handshaking:
            await trio.lowlevel.checkpoint()
        assert not may_accept()
        bench.clock.now_ms += EVICTION_MS
        assert may_accept()
        ((reason, detail),) = await closed(bench, 1)
        assert (reason, detail) == (
            CloseReason.PROXY_HEADER,
            "no PROXY header yet, and its place was needed",
        )
        await client.aclose()


async def test_from_other_addresses_a_header_is_no_part_of_the_protocol(bench):
    """Its first bytes are left to the session, which names them."""
    async with accepting(bench, proxies=("203.0.113.0/24",)) as (_, connect):
        client = await connect(line("198.51.100.1", 1))
        ((host, _),) = await sessions(bench, 1)
        assert host == "127.0.0.1"
        await client.aclose()


async def test_the_header_comes_before_tls(bench, tmp_path):
    """Exactly the header is taken, so the handshake finds the ClientHello whole."""
    contexts = Contexts.make(tmp_path)
    principals = CertificatePrincipals("subject", str)
    tls = TlsListener(contexts.server, Handshakes(bench.event_loop), principals, bench.clock)
    async with accepting(bench, tls=tls) as (_, connect):
        client = await connect(binary("203.0.113.7", 5, b"\x04\x00\x03abc"))
        secured = trio.SSLStream(client, contexts.client, server_hostname="localhost")
        with suppress(ssl.SSLError):
            await secured.do_handshake()
        assert await sessions(bench, 1) == [("203.0.113.7", 5)]
        await client.aclose()


@pytest.mark.parametrize(
    ("networks", "host", "is_in"),
    [
        (["10.0.0.0/8"], "10.1.2.3", True),
        (["10.0.0.0/8"], "11.1.2.3", False),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["fd00::/8"], "fd12::1", True),
        (["fd00::/8"], "fe80::1%eth0", False),
        (["192.0.2.1"], "192.0.2.1", True),
        (["192.0.2.1", "fd00::/8"], "192.0.2.2", False),
        ([], "127.0.0.1", False),
    ],
)
def test_networks_are_of_both_families(bench, networks, host, is_in):
    """An IPv4 client of an IPv6 listener is itself."""
    assert ProxiedClients(networks, bench.engine, {}, bench.clock).includes(host) is is_in
