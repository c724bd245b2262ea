"""Sends and receives on a connection that the event loop does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from proxy.shell.transport import Transport

READ_BYTES: Final = 16 << 10
"""The most that one read takes: no decrypted bytes remain after it (a TLS record)."""


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
