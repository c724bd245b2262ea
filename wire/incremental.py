"""Readers for bytes that may not all be there yet, for walkers that are fed in chunks.

- As in `wire.primitives`, `(value, pos)`; but a value cut off by `end` is `(0, -1)`: come again.
- Only what no further byte can mend is a `WireError`.
- A size is read without looking for what it measures: that is for the walker to step over.
"""

from __future__ import annotations

from typing import Final

from wire.errors import WireError
from wire.primitives import Buffer, int16_at, int32_at

MAX_STRING_BYTES: Final = 0x7FFF  # Kafka refuses longer ones in either spelling

_INCOMPLETE: Final = (0, -1)


def try_uvarint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """An unsigned varint, bounded as `primitives.uvarint` bounds it."""
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise WireError("varint exceeds 32 bits")
            return value, pos
        shift += 7
        if shift == 35:
            raise WireError("varint longer than five bytes")
    return _INCOMPLETE


def try_string(buf: Buffer, pos: int, end: int, *, compact: bool) -> tuple[int, int]:
    """Length (-1: null) and start of a string; its bytes need not be there yet."""
    if compact:
        length, pos = try_uvarint(buf, pos, end)
        length -= 1
    elif pos + 2 > end:
        return _INCOMPLETE
    else:
        length = int16_at(buf, pos)[0]
        pos += 2
    if not -1 <= length <= MAX_STRING_BYTES:
        raise WireError(f"string of {length} bytes")
    return length, pos


def try_size(buf: Buffer, pos: int, end: int, *, compact: bool) -> tuple[int, int]:
    """An array's count or a records field's size (-1: null)."""
    if compact:
        size, pos = try_uvarint(buf, pos, end)
        return size - 1, pos
    if pos + 4 > end:
        return _INCOMPLETE
    size = int32_at(buf, pos)[0]
    if size < -1:
        raise WireError(f"size of {size}")
    return size, pos + 4
