"""One attempt to connect to one address: TCP, then TLS if it is configured.

Rules:
- A lack of file descriptors has a close reason of its own, because it is not the broker's fault.
- A connection that leads to a port of Sluice itself is closed: a broker may name that address, and each client would
  cost another connection, without end.
- With TLS each address has its own session tickets, and the name that is verified is the host that was dialled.
- The socket has no option that a library has set: a stream of Trio lets the kernel keep 16 KiB of unsent bytes only.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

import trio

from proxy.core.errors import CloseReason
from proxy.host_port import host_port
from proxy.shell.transport import HandshakeError, PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.shell.transport import BrokerTls, Transport

    IsOwn = Callable[[socket.SocketType, int], bool]
    """Whether a connection, made to this port, leads to Sluice itself."""


_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
_NOTSENT_LOWAT: Final[int | None] = getattr(socket, "TCP_NOTSENT_LOWAT", None)

READ_BYTES: Final = 16 << 10
"""The most that one read takes: no decrypted bytes remain after it (a TLS record)."""
UNSENT_BYTES: Final = 1 << 20
"""How many bytes the kernel keeps unsent for a broker, and 64 KiB more. It takes at once what a producer has in flight
(five requests of 12 batches of 16 KiB). A broker that reads nothing costs a quarter of the system's 4 MiB."""


class DialError(Exception):
    """No connection to a broker; `reason` is the CloseReason, `detail` names the address and the cause."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def never_own(_: socket.SocketType, _port: int) -> bool:
    """Return False: no connection leads to a port of Sluice."""
    return False


async def dial(
    host: str,
    port: int,
    timeout_s: float,
    tls: BrokerTls | None = None,
    is_own: IsOwn = never_own,
) -> Transport:
    """Return a connection to one address. Raises DialError, after `timeout_s` for each of TCP and TLS at the latest."""
    try:
        with trio.fail_after(timeout_s):
            stream = await _connect(host, port)
    except trio.TooSlowError:
        raise too_slow(host, port, timeout_s) from None
    # The event loop's from here on: a plain socket with the same descriptor.
    connected = socket.socket(fileno=stream.socket.detach())
    try:
        take_over(connected, host, port, is_own)
    except DialError:
        connected.close()
        raise
    if tls is None:
        return PlainTransport(connected)
    try:
        return await tls.secure(connected, host, port)
    except HandshakeError as error:
        raise DialError(CloseReason.BROKER_TLS, f"{host_port(host, port)}: {error}") from error


async def _connect(host: str, port: int) -> trio.SocketStream:
    """Return a connection. Raises DialError with the system's message."""
    try:
        return await trio.open_tcp_stream(host, port)
    except (OSError, UnicodeError) as error:  # a host that is no name at all is a UnicodeError
        raise refused(host, port, error) from error


def refused(host: str, port: int, error: OSError | UnicodeError) -> DialError:
    """Return the error of an attempt that the system has ended."""
    cause = _cause(error)
    why = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
    is_ours = isinstance(cause, OSError) and cause.errno in _OUT_OF_DESCRIPTORS
    reason = CloseReason.FILE_DESCRIPTORS_EXHAUSTED if is_ours else CloseReason.UPSTREAM_REFUSED
    return DialError(reason, f"{host_port(host, port)}: {why}")


def too_slow(host: str, port: int, timeout_s: float) -> DialError:
    """Return the error of an attempt that took too long."""
    detail = f"{host_port(host, port)} did not answer within {timeout_s:g} s"
    return DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, detail)


def take_over(connected: socket.SocketType, host: str, port: int, is_own: IsOwn) -> None:
    """Prepare a connection to a broker. Raises DialError for one that leads to a port of Sluice itself."""
    if _NOTSENT_LOWAT is not None:
        connected.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, UNSENT_BYTES)
    if is_own(connected, port):
        detail = f"{host_port(host, port)} is a port of Sluice itself"
        raise DialError(CloseReason.UPSTREAM_REFUSED, detail)


def _cause(error: OSError | UnicodeError) -> BaseException:
    """Return the system's error ("Connection refused"), which Trio wraps in the list of its attempts."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, OSError) and cause.strerror else error


async def send_all(connection: Transport, data: bytes) -> None:
    """Send all of the data. Raises OSError."""
    while data:
        try:
            data = data[connection.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(connection.fileno())


async def receive_some(connection: Transport) -> bytes:
    """Return the next bytes, b"" at the end of the stream. Raises OSError."""
    area = bytearray(READ_BYTES)
    while True:
        try:
            return bytes(area[: connection.recv_into(memoryview(area))])
        except BlockingIOError:
            await trio.lowlevel.wait_readable(connection.fileno())
