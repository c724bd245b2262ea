"""Unsigned varints: seven bits a byte, the lowest first, at most five bytes and 32 bits.

A longer encoding of a small value (`80 00` for 0) is accepted, as Kafka's `ByteUtils.readUnsignedVarint` accepts it.
"""

from __future__ import annotations

from typing import Final

from wire.errors import WireError

UINT32_MAX: Final = 0xFFFF_FFFF

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def uvarint(buf: bytes | bytearray, pos: int, end: int) -> tuple[int, int]:
    """Return `(value, pos)`. A sixth byte, a 33rd bit or too few bytes before `end` raise `WireError`."""
    if pos < end and (byte := buf[pos]) < 0x80:
        return byte, pos + 1
    value, stop = try_uvarint(buf, pos, end)
    if stop < 0:
        raise WireError(f"varint is cut off at offset {end}")
    return value, stop


def try_uvarint(buf: bytes | bytearray, pos: int, end: int) -> tuple[int, int]:
    """Return `(value, pos)`, (0, -1) if `end` cuts the varint off. Raises `WireError` as `uvarint` does."""
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                raise WireError(f"varint {value} is outside 0..{UINT32_MAX}")
            return value, pos
        shift += 7
        if shift == 35:
            raise WireError("varint has more than 5 bytes, expected 1..5")
    return 0, -1


def encode_uvarint(value: int) -> bytes:
    """Return `value` (0 to 2^32 - 1) in its shortest encoding. Raises `WireError` outside that range."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= UINT32_MAX:
        raise WireError(f"varint {value} is outside 0..{UINT32_MAX}")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
