"""One socket of a link, as the event loop sees it.

`expect` is the mask registered: any other event is unusual. What is called for every event stands ready
as a bound method.
"""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING, Final

from proxy.shell.poller import IN

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.channel import Channel
    from proxy.core.session.session import Session
    from proxy.core.session.state import SessionState
    from proxy.shell.transport import Transport

_INT: Final = struct.Struct("i")


class Endpoint:
    """See the module."""

    __slots__ = (
        "channel",
        "closed",
        "expect",
        "fd",
        "forward",
        "hung_up",
        "lingering",
        "other",
        "recv_into",
        "send",
        "session",
        "take",
        "timer",
        "traffic",
        "transport",
    )

    other: Endpoint
    forward: Callable[[bytes | bytearray | memoryview], int]
    """The other end's `send`: where this one's bytes go."""

    def __init__(
        self,
        transport: Transport,
        session: Session,
        channel: Channel,
        take: Callable[[bytearray, int, int, int], int],
        traffic: list[int],
    ) -> None:
        self.transport = transport
        self.fd = transport.fileno()
        self.recv_into = transport.recv_into
        self.send = transport.send
        self.session = session
        self.channel = channel
        self.take = take
        self.traffic = traffic  # one number: bytes read, of all sockets of this side and node
        self.expect = IN
        self.closed = False
        self.lingering = False
        self.hung_up = False  # it has closed its side, as was seen without reading
        self.timer: Timer | None = None

    @property
    def is_client(self) -> bool:
        """Which of the two it is."""
        return self.channel is self.session.client


def unread_bytes(session: SessionState) -> int:
    """Return how many bytes of the session's client the kernel holds unread (FIONREAD); 0 if it is closed.

    Under TLS these are encrypted bytes.
    """
    end = session.handle
    if not isinstance(end, Endpoint) or end.closed:
        return 0
    answer = fcntl.ioctl(end.fd, termios.FIONREAD, bytes(_INT.size))
    count: int = _INT.unpack(answer)[0]
    return count
