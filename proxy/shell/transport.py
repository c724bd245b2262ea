"""What the event loop needs of a connection. A plain TCP socket is one; TLS will be another."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Transport(Protocol):
    """Never blocks: BlockingIOError says "not now", any other OSError that the connection is gone.

    `recv_into` and `send` are attributes so that the event loop calls the socket's own methods without a
    layer between.
    """

    recv_into: Callable[[memoryview], int]
    send: Callable[[bytes | bytearray | memoryview], int]

    def fileno(self) -> int:
        """The descriptor to wait for."""

    def peer_address(self) -> str | None:
        """HOST:PORT of the other side; None when it is gone already."""

    def is_finished(self) -> bool:
        """Whether the peer has said its last byte and all of it was read. Reads nothing."""

    def shutdown(self) -> None:
        """Say that no more bytes will come; the other direction stays open."""

    def close(self) -> None:
        """Give the descriptor back."""


class PlainTransport:
    """A connected TCP socket."""

    __slots__ = ("_socket", "recv_into", "send")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer that vanished without a word is noticed some time, as Kafka's own sockets do.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self.recv_into: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[bytes | bytearray | memoryview], int] = connected.send

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._socket.fileno()

    def peer_address(self) -> str | None:
        """As the kernel knows it: the address that was dialled, not its name."""
        try:
            host, port = self._socket.getpeername()[:2]
        except OSError:
            return None
        return f"{host}:{port}"

    def is_finished(self) -> bool:
        """Look at the next byte: none will come, or nobody knows yet."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False

    def shutdown(self) -> None:
        """Send FIN behind whatever is still in the kernel's buffer."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Give the descriptor back. Unread bytes turn this into a reset: see EventLoop's lingering."""
        self._socket.close()
