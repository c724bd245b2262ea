"""A connection of the admin server with a time limit on each send.

hypercorn shields its sends from cancellation, so a peer that does not read could delay the end of the proxy. Here a
send has MAX_SEND_S, and `drop` closes the connection at once.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_SEND_S = 10.0
_CREDENTIALS = struct.Struct("3i")


class SendTimeoutStream:
    """The methods of a SocketStream that hypercorn's TCPServer uses."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket

    async def send_all(self, data: Buffer) -> None:
        """Send all. Raises BrokenResourceError if the peer does not read for MAX_SEND_S."""
        with trio.move_on_after(MAX_SEND_S) as limit:
            await self._stream.send_all(bytes(data))
        if limit.cancelled_caught:
            raise trio.BrokenResourceError("the peer does not read")

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See SocketStream."""
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """See SocketStream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """See SocketStream."""
        await self._stream.aclose()

    def drop(self) -> None:
        """Close the socket at once."""
        self.socket.close()

    def peer(self) -> str:
        """Return uid and pid of a Unix socket's peer, from the kernel; empty for TCP and without SO_PEERCRED."""
        if self.socket.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
            return ""
        raw = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        return f"uid {uid} pid {pid}"
