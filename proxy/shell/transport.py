"""The interface of a connection for the event loop, and its implementation for plain TCP sockets."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Transport(Protocol):
    """A connection that never blocks: BlockingIOError means "not now", any other OSError that it is lost.

    `recv_into` and `send` are attributes so that the event loop calls the socket's own methods without a
    layer between.
    """

    recv_into: Callable[[memoryview], int]
    send: Callable[[bytes | bytearray | memoryview], int]

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


class PlainTransport:
    """A connected TCP socket."""

    __slots__ = ("_socket", "recv_into", "send")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # So that a peer that vanished is noticed, as with Kafka's own sockets.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self.recv_into: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[bytes | bytearray | memoryview], int] = connected.send

    def fileno(self) -> int:
        """See Transport."""
        return self._socket.fileno()

    def peer_address(self) -> str | None:
        """See Transport. The address that was dialled, not its name."""
        try:
            host, port = self._socket.getpeername()[:2]
        except OSError:
            return None
        return f"{host}:{port}"

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
