"""Real TCP pairs on loopback, and a hub between two of them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from proxy.core.errors import CloseReason
from proxy.shell.hub import Hub
from proxy.shell.transport import PlainTransport
from tests.support.sessions import make_engine

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.core.session import Session


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    ours.settimeout(5)
    return ours, theirs


class HandClock:
    """Turned by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms

    def now_us(self) -> int:
        return self.now_ms * 1000


class Bench:
    """A hub with as many linked pairs as wanted. `client` and `broker` are the far ends."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine or make_engine()
        self.clock = HandClock()
        self.hub = Hub(self.engine, self.clock)
        self.far: list[socket.socket] = []

    def link(self) -> tuple[socket.socket, socket.socket, Session]:
        """A client and a broker connected through the hub."""
        client, near_client = tcp_pair()
        broker, near_broker = tcp_pair()
        session = self.engine.connect("127.0.0.1", 1, None)
        assert session is not None
        self.hub.attach(session, PlainTransport(near_client), PlainTransport(near_broker))
        self.far += [client, broker]
        return client, broker, session

    def close(self) -> None:
        """Everything, on both ends."""
        self.hub.close_all(CloseReason.INTERNAL)
        self.hub.close()
        for each in self.far:
            each.close()

    def run(self, idle_s: float = 0.02) -> int:
        """Step until nothing happens for `idle_s`; how many events there were.

        A step that only gives sessions their turns or hears clients again has no events of its own.
        """
        total = idle = 0
        while idle < 2:
            events = self.hub.step(idle_s)
            idle = 0 if events else idle + 1
            total += events
            assert total < 100_000, "the hub spins"
        return total


def receive(sock: socket.socket, size: int) -> bytes:
    """Exactly this many bytes, or what came before EOF."""
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            break
        data += chunk
    return data


def reset(sock: socket.socket) -> None:
    """Close with RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    sock.close()
