"""The endpoints of an event loop, each the socket of one side of a session: data, for the functions over them."""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING, Final, Protocol

from proxy.shell import masks, system_calls
from proxy.shell.loop_limits import READ_BYTES
from proxy.shell.poller import make_poller
from proxy.shell.transport import PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.engine import Engine
    from proxy.core.memory.claim import Claimant
    from proxy.core.node_health import ByteCount
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.channel import Channel
    from proxy.core.session.session import Session
    from proxy.core.turns import Scheduled
    from proxy.shell.transport import Security, Transport

_INT: Final = struct.Struct("i")


class Endpoint:
    """One side of a session: its socket, its channel and its place in the poll set.

    `expect` is the registered mask; any other event takes the slow path. `read_bytes` is the most that a read may take.
    Methods that are called for each event are kept bound. `direct` is the descriptor for `system_calls`: the event loop
    then calls those instead. It is -1 where it must not: they do not pay, the bytes are not the socket's own (TLS), or
    the socket is closed.
    """

    __slots__ = (
        "channel",
        "closed",
        "direct",
        "expect",
        "fd",
        "finished",
        "forward",
        "hung_up",
        "is_client",
        "lingering",
        "other",
        "pending",
        "read_bytes",
        "recv_into",
        "send",
        "session",
        "timer",
        "traffic",
        "transport",
    )

    other: Endpoint
    forward: Callable[[bytes | bytearray | memoryview], int]
    """`send` of the other endpoint."""

    def __init__(
        self,
        transport: Transport,
        session: Session,
        channel: Channel,
        traffic: ByteCount,
    ) -> None:
        self.use(transport)
        self.session = session
        self.channel = channel
        self.is_client = channel is session.client
        self.traffic = traffic
        self.expect = masks.IN
        self.read_bytes = READ_BYTES
        self.closed = False
        self.lingering = False
        self.finished = False  # the peer's end of stream was read
        self.hung_up = False  # the peer has closed its side, which RDHUP tells without a read
        self.timer: Timer | None = None

    def use(self, transport: Transport) -> None:
        """Read from this connection, and send to it. Without a descriptor (-1) it is no connection yet."""
        self.transport = transport
        self.fd = transport.fileno()
        self.direct = self.fd if system_calls.PAYS and type(transport) is PlainTransport else -1
        self.recv_into = transport.recv_into
        self.send = transport.send
        self.pending = transport.pending


class Brokers(Protocol):
    """Dials the brokers of sessions."""

    def need(self, session: Session) -> None:
        """Dial the session's broker, because bytes for it are there. It may be told again and again."""

    def cancel(self, session: Session) -> None:
        """Cancel the dial, because the session has ended."""


class Endpoints:
    """All endpoints of an event loop, and their poll set.

    `by_fd`: each at the place of its descriptor, None at the others; there are `open_sockets` of them.
    `closed`: those whose session was released in this step. `brokers`: None if sessions come with their brokers.
    `watched`: what is called with `now_ms` when another descriptor is ready, by descriptor: a port's, or that of a
    connection that is being made.
    What costs more than the fast path is counted: `slow_events`, `refused_sends` (the kernel took not all bytes), and
    `interest_changes` (calls of `epoll_ctl` for a connection that stays).
    """

    __slots__ = (
        "brokers",
        "by_fd",
        "closed",
        "engine",
        "interest_changes",
        "open_sockets",
        "poller",
        "refused_sends",
        "slow_events",
        "watched",
    )

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.poller = make_poller()
        self.by_fd: list[Endpoint | None] = []
        self.open_sockets = 0
        self.closed: list[Endpoint] = []
        self.brokers: Brokers | None = None
        self.watched: dict[int, Callable[[int], None]] = {}
        self.interest_changes = self.refused_sends = self.slow_events = 0

    def watch(self, fd: int, events: int, on_ready: Callable[[int], None]) -> None:
        """Call `on_ready(now_ms)` in each step in which this descriptor is ready, after the endpoints were served.

        It may be called for an event of a descriptor of the same number, closed in that step: it must look for itself.
        Raises OSError if the descriptor cannot be registered.
        """
        self.poller.register(fd, events)
        self.watched[fd] = on_ready

    def unwatch(self, fd: int) -> None:
        """Watch it no longer; before it is closed."""
        if self.watched.pop(fd, None) is not None:
            self.poller.unregister(fd)


def register_connected(endpoints: Endpoints, fd: int) -> None:
    """Register a connection to a broker. One that the event loop has made is watched already (`connecting`)."""
    if fd in endpoints.watched:
        endpoints.poller.modify(fd, masks.IN)
        del endpoints.watched[fd]
    else:
        endpoints.poller.register(fd, masks.IN)


def add(endpoints: Endpoints, end: Endpoint) -> None:
    """Add an endpoint that has been registered."""
    by_fd = endpoints.by_fd
    by_fd.extend([None] * (end.fd + 1 - len(by_fd)))
    by_fd[end.fd] = end
    endpoints.open_sockets += 1


def remove(endpoints: Endpoints, end: Endpoint) -> None:
    """Remove an endpoint, before its descriptor is closed."""
    if find(endpoints, end.fd) is end:
        endpoints.by_fd[end.fd] = None
        endpoints.open_sockets -= 1


def find(endpoints: Endpoints, fd: int) -> Endpoint | None:
    """Return the endpoint with this descriptor, if there is one."""
    by_fd = endpoints.by_fd
    return by_fd[fd] if fd < len(by_fd) else None


def has_pending(end: Endpoint) -> bool:
    """Return whether bytes can be read that the poll set does not see."""
    return end.pending is not None and end.pending() > 0


def try_expect_early(session: Scheduled) -> bool:
    """Let the next event of the session's client call `mutes.begin_deferred` before its bytes are read.

    Return False under TLS: bytes that OpenSSL has decrypted make no event.
    """
    end = session.handle
    if not isinstance(end, Endpoint) or end.pending is not None:
        return False
    end.expect |= masks.EARLY
    return True


def unread_bytes(session: Claimant) -> int:
    """Return how many bytes of the session's client are unread; 0 if it is closed.

    The kernel holds them (FIONREAD), under TLS encrypted, or OpenSSL does.
    """
    end = session.handle
    if not isinstance(end, Endpoint) or end.closed:
        return 0
    answer = fcntl.ioctl(end.fd, termios.FIONREAD, bytes(_INT.size))
    count: int = _INT.unpack(answer)[0]
    return count if end.pending is None else count + end.pending()


def tls_of(session: Claimant) -> tuple[str, str]:
    """Return the TLS version and cipher of the client's and of the broker's side; "" for a side that is plain."""
    end = session.handle
    if not isinstance(end, Endpoint) or end.closed or end.other.closed:
        return "", ""
    return _words(end.transport.security), _words(end.other.transport.security)


def _words(security: Security | None) -> str:
    return "" if security is None else f"{security.protocol} {security.cipher}"
