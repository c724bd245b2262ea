"""A TCP connection that the event loop makes: a connect that does not block, without a task.

Rules:
- It leads to a socket address, so there is no name to look up, and no second address to try meanwhile.
- The outcome is told once, unless it is cancelled: the connected socket, or the error. The socket is the caller's then,
  and still watched: the event loop reads from it without another registration (`EventLoop.join`), or the caller ends
  the watch before it closes the socket.
- An event alone is no proof of a connection: it may be one of an earlier socket of the same number. A second `connect`
  tells the outcome of the first.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry
from proxy.shell.masks import OUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.shell.endpoint import Endpoints

    SocketAddress = tuple[socket.AddressFamily, tuple[str, int]]
    """The family, and the address as `connect` takes it."""
    Done = Callable[[socket.SocketType | None, OSError | None], None]

_NON_BLOCKING: Final = getattr(socket, "SOCK_NONBLOCK", 0)
_KIND: Final = socket.SOCK_STREAM | _NON_BLOCKING
_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EALREADY})
_CONNECTED: Final = frozenset({0, errno.EISCONN})


def socket_address(host: str, port: int) -> SocketAddress | None:
    """Return the socket address, in its shortest form, of an IP address; None for a name, or one with a zone."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family, (socket.inet_ntop(family, packed), port)
    return None


class Connecting(TimerEntry):
    """A connection that is being made, until `at_ms` at the latest.

    `done(socket, None)` or `done(None, error)` tells the outcome: a TimeoutError if there is none in time.
    """

    __slots__ = ("_address", "_done", "_endpoints", "_socket")

    def __init__(self, endpoints: Endpoints, to: SocketAddress, at_ms: int, done: Done) -> None:
        """Begin to connect. Raises OSError if that fails at once."""
        self.at_ms, self.bucket = at_ms, NOWHERE  # as in TimerEntry
        self._endpoints = endpoints
        self._done = done
        self._socket = _begin(to)
        self._address = to[1]
        try:
            endpoints.watch(self._socket.fileno(), OUT, self._on_ready)
        except OSError:  # the user has no epoll watches left
            self._socket.close()
            raise
        endpoints.engine.timers.add(self)

    def cancel(self) -> None:
        """Close the socket, and tell nothing."""
        TimerEntry.cancel(self)  # `super()` fails in a method that C calls
        self._endpoints.unwatch(self._socket.fileno())
        self._socket.close()

    def fire(self, _now_ms: int) -> None:
        """See TimerEntry: it takes too long."""
        self.cancel()
        self._done(None, TimeoutError())

    def _on_ready(self, _now_ms: int) -> None:
        code = self._socket.connect_ex(self._address)
        if code in _UNDER_WAY:
            return
        if code in _CONNECTED:
            TimerEntry.cancel(self)
            self._done(self._socket, None)
        else:
            self.cancel()
            self._done(None, OSError(code, os.strerror(code)))


def _begin(to: SocketAddress) -> socket.SocketType:
    """Return a socket that begins to connect. Raises OSError."""
    family, address = to
    begun = socket.SocketType(family, _KIND)
    if not _NON_BLOCKING:
        begun.setblocking(False)
    code = begun.connect_ex(address)
    if code in _UNDER_WAY or code in _CONNECTED:
        return begun
    begun.close()
    raise OSError(code, os.strerror(code))
