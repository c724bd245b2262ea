"""The interface of a connection for the event loop, and its implementation for plain TCP sockets.

TLS implements it too (`proxy.tls`), and secures connections for the acceptor and the dialer (`ClientTls`, `BrokerTls`).
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.connection_limits import ConnectionLimits


class TlsError(OSError):
    """The connection is lost because of TLS: a bad record, or an alert of the peer. The message says which."""


class HandshakeError(Exception):
    """No TLS connection; the message says why."""


class PeerGoneError(HandshakeError):
    """The client disconnected before it sent a byte: a port check, or a load balancer's."""


class Security(NamedTuple):
    """The TLS of a connection. `subject`: that of the peer's certificate (RFC 2253), "" if it has shown none."""

    protocol: str
    cipher: str
    subject: str


class Transport(Protocol):
    """A connection that never blocks: BlockingIOError means "not now", any other OSError that it is lost.

    `recv_into` and `send` are attributes so that the event loop calls the socket's own methods without a
    layer between. Bytes that `send` refused are the first bytes of the next call.
    """

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Receive into a buffer; return how many bytes, 0 at the end of the stream."""

    @property
    def send(self) -> Callable[[bytes | bytearray | memoryview], int]:
        """Send; return how many bytes were accepted."""

    @property
    def pending(self) -> Callable[[], int] | None:
        """Return how many bytes can be received although the descriptor may not be readable; None: never any."""

    @property
    def security(self) -> Security | None:
        """Return the TLS of the connection; None if it is plain."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""

    def peer_address(self) -> str | None:
        """Return HOST:PORT of the peer; None if it has disconnected."""

    def is_finished(self) -> bool:
        """Return whether the peer has closed its side and all of its bytes were read. Reads nothing."""

    def shutdown(self) -> None:
        """Close the sending direction; the other one stays open. Raises OSError."""

    def close(self) -> None:
        """Close the descriptor."""


class SecureClient(NamedTuple):
    """A client after its TLS handshake. `node_id`: the broker that it asks for by the server's name.

    `user`: from its certificate, "" without one. `ends_ms`: when that ends, in ms since the epoch; None: the connection
    may stay.
    """

    transport: Transport
    node_id: int | None
    user: str
    ends_ms: int | None


class ClientTls(Protocol):
    """Makes the TLS handshakes of clients."""

    def limit(self, limits: ConnectionLimits) -> None:
        """Set how many clients make their handshakes at once, and their time."""

    async def secure(
        self, accepted: socket.socket, node_id: int | None, address: str
    ) -> SecureClient:
        """Make the handshake of a client of the port of `node_id`. Raises HandshakeError; `accepted` is closed then.

        `address` is what the client counts as (`connection_limits.address_of`).
        """


class BrokerTls(Protocol):
    """Makes the TLS handshakes with brokers."""

    async def secure(self, connected: socket.socket, host: str, port: int) -> Transport:
        """Make the handshake with the broker at host:port. Raises HandshakeError; `connected` is closed then."""


class UndialledTransport:
    """The place of a broker that is not dialled yet: it takes nothing and gives nothing."""

    __slots__ = ()
    pending: ClassVar[None] = None
    security: ClassVar[None] = None

    def recv_into(self, area: memoryview) -> int:
        """See Transport. Raises BlockingIOError."""
        raise BlockingIOError

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """See Transport. It takes no byte."""
        return 0

    def fileno(self) -> int:
        """Return -1: there is nothing to wait for."""
        return -1

    def peer_address(self) -> None:
        """See Transport."""

    def is_finished(self) -> bool:
        """See Transport."""
        return False

    def shutdown(self) -> None:
        """See Transport."""

    def close(self) -> None:
        """See Transport."""


class PlainTransport:
    """A connected TCP socket."""

    __slots__ = ("_socket", "recv_into", "send")
    pending: ClassVar[None] = None
    security: ClassVar[None] = None

    def __init__(self, connected: socket.SocketType, *, has_options: bool = False) -> None:
        """Use this socket, which may be one of the system's own type: what the library adds to it costs more than the
        system call. `has_options`: those of `set_options` hold for it already.
        """
        if has_options:
            connected.setblocking(False)
        else:
            prepare(connected)
        self._socket = connected
        self.recv_into: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[bytes | bytearray | memoryview], int] = connected.send

    def fileno(self) -> int:
        """See Transport."""
        return self._socket.fileno()

    def peer_address(self) -> str | None:
        """See Transport. The address that was dialled, not its name."""
        return address_of(self._socket)

    def is_finished(self) -> bool:
        """See Transport. Peeks at the next byte."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False

    def shutdown(self) -> None:
        """See Transport. The kernel sends FIN after the bytes in its buffer."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See Transport. With unread bytes the kernel sends a reset: see EventLoop's lingering."""
        self._socket.close()


def prepare(connected: socket.SocketType) -> None:
    """Make a connected socket non-blocking, without delays, and let it notice a peer that vanished."""
    if connected.gettimeout() != 0:  # else it is made so, and a call of the system saved
        connected.setblocking(False)
    set_options(connected)


def set_options(connected: socket.SocketType) -> None:
    """Let a socket send without delays, and notice a peer that vanished. Those that a port accepts inherit both."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # As with Kafka's own sockets.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def address_of(connected: socket.SocketType) -> str | None:
    """Return HOST:PORT of the socket's peer; None if it has disconnected."""
    try:
        host, port = connected.getpeername()[:2]
    except OSError:
        return None
    return host_port(host, port)
