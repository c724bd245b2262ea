"""Real TCP pairs on loopback, and an event loop between two of them."""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Channel
from proxy.core.session.session import Session
from proxy.shell.clock import Clock
from proxy.shell.dial import UNSENT_BYTES
from proxy.shell.endpoint import Endpoint
from proxy.shell.event_loop import EventLoop
from proxy.shell.transport import PlainTransport
from tests.support.core.sessions import make_engine


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets: the far end, which times out after 5 s, and the near end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    ours.settimeout(60)
    return ours, theirs


class HandClock(Clock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.spent_us = 0

    def __call__(self) -> int:
        return self.now_us() // 1000

    def now_us(self) -> int:
        return self.now_ms * 1000 + self.spent_us

    def spend(self, us: int) -> None:
        """Advance the clock by work that takes `us` microseconds."""
        self.spent_us += us


class Bench:
    """An event loop and the links that a test makes through it."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine or make_engine()
        self.clock = HandClock()
        self.event_loop = EventLoop(self.engine, self.clock)
        self.far: list[socket.socket] = []

    def link(self) -> tuple[socket.socket, socket.socket, Session]:
        """Connect a client and a broker through the event loop; return their far ends and the session."""
        client, near_client = tcp_pair()
        broker, near_broker = tcp_pair()
        session = self.engine.connect("127.0.0.1", 1, None)
        assert session is not None
        self.event_loop.attach(session, PlainTransport(near_client), PlainTransport(near_broker))
        self.far += [client, broker]
        return client, broker, session

    def close(self) -> None:
        """Close the event loop and both ends of every link."""
        self.event_loop.close_all(CloseReason.INTERNAL)
        self.event_loop.close()
        for each in self.far:
            each.close()

    def run(self, idle_s: float = 0.02) -> int:
        """Step until nothing happens for `idle_s`; return the number of events.

        A step that only gives sessions their turns or unmutes clients has no events of its own.
        """
        total = idle = 0
        while idle < 2:
            events = self.event_loop.step(idle_s)
            idle = 0 if events else idle + 1
            total += events
            assert total < 100_000, "the event loop spins"
        return total

    def settle(self) -> None:
        """Make one empty step, because the first step after a pause polls twice."""
        self.event_loop.step(0)

    def step_until(self, condition: Callable[[], object]) -> None:
        """Step until the condition holds; raise AssertionError when it does not within 500 steps."""
        for _ in range(500):
            self.event_loop.step(0.01)
            if condition():
                return
        raise AssertionError("the condition does not hold after 500 steps")

    def join(self, thread: threading.Thread) -> None:
        """Step until the thread has ended."""
        while thread.is_alive():
            self.event_loop.step(0.01)
        thread.join()

    def receive(self, far: socket.socket, size: int) -> bytes:
        """Step until `far` has received this many bytes or EOF; return what it received."""
        got = bytearray()
        reader = threading.Thread(target=lambda: got.extend(receive(far, size)))
        reader.start()
        self.join(reader)
        return bytes(got)

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes that both memory pools count."""
        return self.engine.request_pool.used_bytes + self.engine.reply_pool.used_bytes


def start_sending(far: socket.socket, data: bytes) -> threading.Thread:
    """Start a thread that sends all of the data, unless the event loop closes the connection first."""

    def send() -> None:
        with suppress(OSError):
            far.sendall(data)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


_VOLATILE = {
    "SO_ERROR",
    "SO_INCOMING_CPU",
    "SO_REUSEADDR",
    "TCP_INFO",
    "TCP_MAXSEG",
    "TCP_QUICKACK",
    "TCP_WINDOW_CLAMP",
}
"""Options that the kernel changes by itself, and the one that an accepted socket has from its listener."""
_OTHER_LEVELS = ("SO_J1939", "SO_VM_SOCKETS", "SO_PEER")


PREPARED = {"TCP_NODELAY": 1, "SO_KEEPALIVE": 1}
DIALLED = PREPARED | {"TCP_NOTSENT_LOWAT": UNSENT_BYTES}
"""What `options_set_on` returns for an accepted client and for a broker."""


def options_set_on(connected: socket.socket) -> dict[str, int]:
    """Return the options of a TCP connection that do not have the system's value."""
    far, plain = tcp_pair()
    found = {}
    for name in dir(socket):
        level = {"SO": socket.SOL_SOCKET, "TCP": socket.IPPROTO_TCP}.get(name.partition("_")[0])
        if level is None or name in _VOLATILE or name.startswith(_OTHER_LEVELS):
            continue
        with suppress(OSError):  # not an option of this system
            value = connected.getsockopt(level, getattr(socket, name))
            if value != plain.getsockopt(level, getattr(socket, name)):
                found[name] = value
    far.close()
    plain.close()
    return found


def receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly this many bytes, or what came before EOF."""
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


def arrived(far: socket.socket) -> bytes:
    """Return the bytes that the socket has received and the test has not read yet."""
    far.setblocking(False)
    data = b""
    with suppress(BlockingIOError):
        while chunk := far.recv(1 << 16):
            data += chunk
    far.setblocking(True)
    return data


class WatchedPoller:
    """Wraps the event loop's poller and puts itself in its place; `seen` may change the events of each poll."""

    def __init__(self, bench: Bench) -> None:
        self._poller = bench.event_loop.endpoints.poller
        self.polls: list[int] = []
        bench.event_loop.endpoints.poller = self  # type: ignore[assignment]

    def seen(self, events: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        return events

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        events = self._poller.poll(timeout, maxevents)
        self.polls.append(len(events))
        return self.seen(events)

    def __getattr__(self, name: str) -> object:
        return getattr(self._poller, name)


def receive_through(end: Endpoint, before: Callable[[memoryview], object]) -> None:
    """Call `before` with the area of each read from this side, before it is read."""
    recv_into = end.recv_into

    def receive_into(area: memoryview) -> int:
        before(area)
        return recv_into(area)

    end.recv_into = receive_into
    end.direct = -1  # the compiled event loop calls the method, too


def slow_down(bench: Bench, session: Session, us: int) -> None:
    """Make each read from the session's client or broker take `us` microseconds."""
    for end in (session.handle, session.handle.other):
        receive_through(end, lambda _: bench.clock.spend(us))


def pour(bench: Bench, sides: list[tuple[socket.socket, bytes, Channel]]) -> None:
    """Send from each side as much as its connection accepts, until every channel is muted."""
    left = {far: memoryview(data) for far, data, _ in sides}
    for far in left:
        far.setblocking(False)
    for _ in range(20_000):
        for far, data in left.items():
            with suppress(BlockingIOError):
                left[far] = data[far.send(data[: 1 << 20]) :]
        bench.event_loop.step(0)
        if all(channel.muted for _, _, channel in sides):
            return
    raise AssertionError("a channel is still read after 20,000 steps")
