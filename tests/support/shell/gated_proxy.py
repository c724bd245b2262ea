"""A Sluice that authenticates its clients, in one thread with them, and a broker that answers ApiVersions."""

from __future__ import annotations

import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.core.errors import CloseReason
from proxy.shell.acceptor import Acceptor
from proxy.shell.broker_dials import BrokerDials
from proxy.shell.dial import DialError
from proxy.shell.dialer import Upstream
from proxy.shell.listeners import STORM_MS, Listeners
from proxy.shell.transport import PlainTransport
from tests.support.core.sessions import Watcher
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.shell.sasl_service import OFFERED, password_of, sasl_server
from tests.support.shell.sockets import arrived, tcp_pair
from wire.sasl import authenticate_body, handshake_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.shell.sasl_service import Checker
    from tests.support.shell.sockets import Bench

NODE = 7
FETCH, HEARTBEAT = 1, 12


BAD_NAME = "l b"
"""A name of a client's software that a broker refuses (KIP-511)."""
REFUSED = b"\0\x2a\x01" + bytes(5)
"""INVALID_REQUEST and no API."""


def ask(number: int, version: int = 3, client_id: str = "app", software: str = "lib") -> bytes:
    """Return an ApiVersions request."""
    tags = b"\0" if version >= 3 else b""
    body = f.compact(software) + b"\x041.0\0" if version >= 3 else b""
    return f.request(f.API_VERSIONS, version, number, tags + body, client_id=client_id)


def body_of(ranges: dict[int, tuple[int, int]], version: int = 3, throttle_ms: int = 0) -> bytes:
    """Return the body of an answer."""
    flexible = version >= 3
    tag = b"\0" if flexible else b""
    keys = b"".join(struct.pack(">hhh", key, *each) + tag for key, each in sorted(ranges.items()))
    count = bytes([len(ranges) + 1]) if flexible else struct.pack(">i", len(ranges))
    throttle = struct.pack(">i", throttle_ms) if version else b""
    return b"\0\0" + count + keys + throttle + tag


class VersionedBroker:
    """The far ends of the connections that are dialled; it answers ApiVersions with `ranges`."""

    def __init__(self) -> None:
        self.ranges = {FETCH: (4, 13), HEARTBEAT: (0, 4)}
        self.far: list[socket.socket] = []
        self.heard: list[bytes] = []
        self.may = trio.Event()
        self.throttle_ms = 0
        self.error: DialError | None = None

    def direct(self, _node_id: int | None) -> None:
        """Return None: each dial has a task."""

    async def reach(self, node_id: int | None, _tried: object = None) -> Upstream:
        assert node_id == NODE
        await self.may.wait()
        if self.error is not None:
            raise self.error
        far, near = tcp_pair()
        self.far.append(far)
        self.heard.append(b"")
        return Upstream(PlainTransport(near), ("kafka", 9092))

    def work(self) -> None:
        for place, far in enumerate(self.far):
            data = arrived(far) if far.fileno() >= 0 else b""
            self.heard[place] += data
            while data:
                size, key, version, number = struct.unpack_from(">ihhi", data)
                if key == f.API_VERSIONS:
                    answer = body_of(self.ranges, version, self.throttle_ms)
                    if BAD_NAME.encode() in data[: 4 + size]:
                        answer = REFUSED
                    far.sendall(f.reply(number, answer))
                data = data[4 + size :]


class GatedProxy:
    """A Sluice that authenticates its clients."""

    def __init__(self, bench: Bench, checker: Checker) -> None:
        self.bench = bench
        self.broker = VersionedBroker()
        self.observer = Watcher()
        self.listeners = Listeners("127.0.0.1", [(NODE, 0)])
        self.until = trio.Event()
        self._checker = checker
        self._address = self.listeners._bound[0][1].getsockname()

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(self._address)
        client.sendall(sent)
        self.bench.far.append(client)
        self.bench.clock.now_ms += STORM_MS  # others may have come just before
        for _ in range(3):
            self.bench.event_loop.step(0)
        return client

    async def settle(self) -> None:
        """Step until nothing happens."""
        for _ in range(200):
            await trio.lowlevel.checkpoint()
            self.bench.event_loop.step(0)
            self.broker.work()
            self._checker.run_all()

    async def log_in(self, client: socket.socket, number: int) -> None:
        token = plain("alice", password_of("alice"))
        client.sendall(sasl.handshake(number, "PLAIN") + sasl.authenticate(number + 1, token))
        await self.settle()
        said = f.reply(number, handshake_body(0, OFFERED)) + f.reply(
            number + 1, authenticate_body(1)
        )
        assert arrived(client) == said

    @property
    def closed(self) -> list[CloseReason]:
        return [reason for reason, _ in self.bench.engine.observer.closed]


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[GatedProxy]:
    server, checker = sasl_server()
    bench.engine.newcomers.authenticates = True
    bench.engine.authenticate_clients(server)
    proxy = GatedProxy(bench, checker)
    acceptor = Acceptor(bench.engine, bench.event_loop, proxy.observer, bench.clock, 1000)
    dials = BrokerDials(bench.engine, bench.event_loop, proxy.broker, proxy.observer, bench.clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(dials.serve)
        nursery.start_soon(acceptor.serve, proxy.listeners, proxy.until)
        await wait_all_tasks_blocked()
        yield proxy
        nursery.cancel_scope.cancel()
    proxy.listeners.close()
    bench.far += proxy.broker.far
    assert proxy.observer.internal == []
    bench.event_loop.close_all(CloseReason.DRAINED)
    assert bench.held_bytes == bench.engine.unauthenticated.used_bytes == 0
    assert bench.event_loop.arriving == 0


def told(client: socket.socket, number: int, version: int = 3) -> bytes:
    """Return the ranges that the client was told, as bytes."""
    data = arrived(client)
    size, got = struct.unpack_from(">ii", data)
    assert (len(data), got) == (4 + size, number)
    return data[8:]
