"""A connection to the admin server that does not wait for its peer for ever.

hypercorn sends under a shield, so that a peer which does not read could hold up the end of the whole proxy: here a
send has MAX_SEND_S, and `drop` ends the connection whatever is under way.
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
    """What hypercorn's TCPServer uses of a SocketStream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket

    async def send_all(self, data: Buffer) -> None:
        """Raises BrokenResourceError when the peer does not take it."""
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
        """End it now."""
        self.socket.close()

    def peer(self) -> str:
        """Who is at the other end of a Unix socket, as the kernel says; empty where it does not."""
        if self.socket.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
            return ""
        raw = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        return f"uid {uid} pid {pid}"
