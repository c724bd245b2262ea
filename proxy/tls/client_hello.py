"""The first message of a TLS client, as it arrives: how many of its bytes are still missing.

It may be cut anywhere, and lie in several records (RFC 8446 section 5.1). Only lengths and kinds are read; OpenSSL
judges the rest.
"""

from __future__ import annotations

import struct
from typing import Final

MAX_HELLO_BYTES: Final = 32 << 10
"""The longest accepted hello with its records; one with a post-quantum key and a ticket with certificates has 8 KiB."""
HANDSHAKE: Final = 0x16
"""The first byte of a TLS record of a handshake."""
UNEXPECTED_MESSAGE: Final = b"\x15\x03\x03\x00\x02\x02\x0a"
"""The fatal alert for bytes that are no hello, in a record."""
_RECORD: Final = struct.Struct(">BBBH")  # type, version, length
_MAX_RECORD_BYTES: Final = 16 << 10
_MESSAGE_HEAD_BYTES: Final = 4  # kind, length
_CLIENT_HELLO: Final = 1
_TOO_LONG: Final = f"a ClientHello of more than {MAX_HELLO_BYTES} bytes"


class HelloError(Exception):
    """The bytes are no hello; the message says why."""


class ClientHello:
    """`received`: all bytes so far. `missing_bytes`: at least so many are still to come; 0: the message is whole."""

    __slots__ = ("_at", "_head", "_message_bytes", "missing_bytes", "received")

    def __init__(self) -> None:
        self.received = bytearray()
        self.missing_bytes = 1
        self._at = 0  # of the next record
        self._head = bytearray()  # of the message
        self._message_bytes = 0

    @property
    def room_bytes(self) -> int:
        """Return how many bytes may be read next."""
        return MAX_HELLO_BYTES - len(self.received)

    def feed(self, data: bytes) -> None:
        """Take the next bytes, at most `room_bytes`. Raises HelloError; then nothing more may be fed."""
        self.received += data
        begun = -1
        while self.missing_bytes and begun != self._at:
            begun = self._at
            self.missing_bytes = self._read_record()
        if self.missing_bytes > self.room_bytes:
            raise HelloError(_TOO_LONG)

    def _read_record(self) -> int:
        """Read the next record if it is whole; return how many bytes are missing at least."""
        here = len(self.received) - self._at
        if here and self.received[self._at] != HANDSHAKE:
            raise HelloError("unexpected message: a record that is no handshake")
        if here < _RECORD.size:
            return _RECORD.size - here
        _, major, _, length = _RECORD.unpack_from(self.received, self._at)
        if major != 3 or not 1 <= length <= _MAX_RECORD_BYTES:
            raise HelloError(f"unexpected message: a record of version {major} and {length} bytes")
        if here < _RECORD.size + length:
            return _RECORD.size + int(length) - here
        at = self._at + _RECORD.size
        self._at = at + length
        self._message_bytes += length
        left = _MESSAGE_HEAD_BYTES - len(self._head)
        self._head += self.received[at : at + min(left, length)]
        if self._head[0] != _CLIENT_HELLO:
            raise HelloError(f"unexpected message: {self._head[0]} instead of ClientHello")
        if len(self._head) < _MESSAGE_HEAD_BYTES:
            return _RECORD.size
        whole_bytes = _MESSAGE_HEAD_BYTES + int.from_bytes(self._head[1:], "big")
        if whole_bytes > MAX_HELLO_BYTES:
            raise HelloError(_TOO_LONG)
        left = whole_bytes - self._message_bytes
        return _RECORD.size + left if left > 0 else 0
