"""Readers for bytes that may be incomplete, for walkers that are fed in chunks.

- They return `(value, pos)` as in `wire.primitives`. A value that `end` cuts off is `(0, -1)`: try again with more
  bytes.
- `WireError` is raised only for what no further byte can mend.
- A size is read without checking that the bytes it measures are there: the walker steps over them.
"""

from __future__ import annotations

from typing import Final

from wire import topic_runs
from wire.errors import WireError
from wire.primitives import Buffer, int16_at
from wire.varint import try_uvarint

MAX_STRING_BYTES: Final = 0x7FFF  # Kafka refuses longer ones in either spelling


def try_string(buf: Buffer, pos: int, end: int, compact: bool) -> tuple[int, int]:  # noqa: FBT001 - no C call has keywords
    """Return the length (-1: null) and start of a string. Its bytes need not be there yet."""
    if compact:
        length, pos = try_uvarint(buf, pos, end)
        length -= 1
    elif pos + 2 > end:
        return 0, -1
    else:
        length = int16_at(buf, pos)[0]
        pos += 2
    if not -1 <= length <= MAX_STRING_BYTES:
        raise WireError(f"string length {length} is outside -1..{MAX_STRING_BYTES}")
    return length, pos


def try_size(buf: bytearray, pos: int, end: int, compact: bool) -> tuple[int, int]:  # noqa: FBT001 - no C call has keywords
    """Return an array's count or the size of a records field in bytes (-1: null), and the offset after it."""
    if compact:
        size, after = topic_runs.size_at(buf, pos, end, 0)
        if size >= -1:
            return size, after
        size, after = try_uvarint(buf, pos, end)  # it is cut off, long, or malformed
        return size - 1, after
    if pos + 4 > end:
        return 0, -1
    size = topic_runs.size_at(buf, pos, end, 4)[0]
    if size < -1:
        raise WireError(f"size {size} is outside -1..{0x7FFF_FFFF}")
    return size, pos + 4
