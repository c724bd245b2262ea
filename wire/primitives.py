"""The readers and writers from which every walker of Kafka bytes is built.

- A reader takes `(buf, pos, end)` and never looks at `end` or beyond it: those bytes belong to another frame. Bytes
  that end too early are malformed: `WireError`.
- Readers of a length return `(value, pos)`: the value, and the offset after the bytes that were read.
- A count is checked against the least number of bytes that its elements need, before any loop.
- A loop over elements costs budget (`spend`), and so does each tagged field (`spend_tags`): a frame of one-byte
  elements must not block the event loop. An empty tag section costs nothing.
- Integers are read with the bound `..._at` functions after `skip` has checked that their bytes are there.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from wire.errors import BudgetError, WireError
from wire.varint import encode_uvarint, uvarint

Buffer: TypeAlias = bytes | bytearray

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
int16_at: Final = INT16.unpack_from
int32_at: Final = INT32.unpack_from
int64_at: Final = INT64.unpack_from

ELEMENT_BUDGET: Final = 20_000
"""Array elements and tagged fields that a walker visits in one request; the limit prevents denial of service."""

REPLY_ELEMENT_BUDGET: Final = 500_000
"""The same for one reply. A cluster of 200,000 partitions fits, even if each partition has a topic of its own."""

MAX_TAGS_PER_STRUCT: Final = 64

_INT16_MAX: Final = 0x7FFF


# --- reading -----------------------------------------------------------------------------------


def skip(pos: int, size_bytes: int, end: int) -> int:
    """Return `pos + size_bytes`. Raises `WireError` if fewer bytes are left before `end`."""
    stop = pos + size_bytes
    if stop > end or size_bytes < 0:
        raise WireError(f"{size_bytes} bytes needed at offset {pos}, expected 0..{end - pos}")
    return stop


def string_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the int16 length of a string (-1: null) and the offset of its first byte.

    Raises `WireError` unless all of its bytes are before `end`.
    """
    if pos + 2 > end:
        raise WireError(f"string length is cut off at offset {end}")
    length: int = int16_at(buf, pos)[0]
    pos += 2
    if length < -1 or pos + length > end:
        raise WireError(f"string length {length} is outside -1..{end - pos}")
    return length, pos


def compact_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the length of a compact string, bytes or records field (-1: null) and the offset of its first byte.

    Raises `WireError` unless all of its bytes are before `end`.
    """
    length, pos = uvarint(buf, pos, end)
    length -= 1
    if pos + length > end:
        raise WireError(f"compact string length {length} is outside -1..{end - pos}")
    return length, pos


def bytes_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the int32 length of a bytes or records field (-1: null) and the offset of its first byte.

    Raises `WireError` unless all of its bytes are before `end`.
    """
    if pos + 4 > end:
        raise WireError(f"bytes length is cut off at offset {end}")
    length: int = int32_at(buf, pos)[0]
    pos += 4
    if length < -1 or pos + length > end:
        raise WireError(f"bytes length {length} is outside -1..{end - pos}")
    return length, pos


def array_count(buf: Buffer, pos: int, end: int, min_item_bytes: int = 1) -> tuple[int, int]:
    """Return the int32 count of an array (-1: null) and the offset of its first element.

    Each element needs at least `min_item_bytes`; a count that cannot fit before `end` raises `WireError`.
    """
    if pos + 4 > end:
        raise WireError(f"array count is cut off at offset {end}")
    count: int = int32_at(buf, pos)[0]
    pos += 4
    if count < -1 or count * min_item_bytes > end - pos:
        raise WireError(f"array count {count} does not fit in the {end - pos} bytes left")
    return count, pos


def compact_count(buf: Buffer, pos: int, end: int, min_item_bytes: int = 1) -> tuple[int, int]:
    """Return the count of a compact array (-1: null) and the offset of its first element.

    The count is checked as in `array_count`.
    """
    count, pos = uvarint(buf, pos, end)
    count -= 1
    if count * min_item_bytes > end - pos:
        raise WireError(f"compact array count {count} does not fit in the {end - pos} bytes left")
    return count, pos


def skip_string(buf: Buffer, pos: int, end: int) -> int:
    """Return the offset after a string with an int16 length, null or not."""
    length, pos = string_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_compact(buf: Buffer, pos: int, end: int) -> int:
    """Return the offset after a compact string or bytes field, null or not."""
    if pos < end and (byte := buf[pos]) < 0x80:  # almost always: shorter than 127 bytes
        pos += byte or 1
        if pos <= end:
            return pos
        raise WireError(f"compact string of {byte - 1} bytes is cut off at offset {end}")
    length, pos = compact_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_bytes(buf: Buffer, pos: int, end: int) -> int:
    """Return the offset after a bytes field with an int32 length, null or not."""
    length, pos = bytes_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_tags(buf: Buffer, pos: int, end: int) -> int:
    """Return the offset after a tag section.

    Raises `WireError` for more than 64 fields, tags that do not ascend, and sizes beyond `end`.
    """
    if pos < end and buf[pos] == 0:
        return pos + 1
    count, pos = uvarint(buf, pos, end)
    last_tag = -1
    for _ in range(check_tag_count(count)):
        # Nearly all tags and sizes have one byte: two calls less for each of many.
        if pos + 1 < end and (tag := buf[pos]) < 0x80 and (size_bytes := buf[pos + 1]) < 0x80:
            pos += 2
        else:
            tag, pos = uvarint(buf, pos, end)
            size_bytes, pos = uvarint(buf, pos, end)
        if tag <= last_tag:
            raise WireError(f"tag {tag} follows tag {last_tag}, expected a larger one")
        last_tag = tag
        pos = pos + size_bytes if pos + size_bytes <= end else skip(pos, size_bytes, end)
    return pos


def check_tag_count(count: int) -> int:
    """Return `count`, a struct's number of tagged fields. Raises `WireError` if it is too large."""
    if count > MAX_TAGS_PER_STRUCT:
        raise WireError(f"{count} tagged fields in one struct, expected 0..{MAX_TAGS_PER_STRUCT}")
    return count


def spend(budget: int, count: int) -> int:
    """Return what is left of an element budget after `count` more elements; a null array (-1) costs nothing.

    Raises `BudgetError` if the budget is too small.
    """
    if count <= 0:
        return budget
    budget -= count
    if budget < 0:
        raise BudgetError(f"frame exceeds its element budget by {-budget} elements")
    return budget


def spend_tags(buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int]:
    """Return the offset after a tag section, and what is left of `budget`: each tagged field costs one element."""
    if pos < end and buf[pos] == 0:
        return pos + 1, budget
    count, _ = uvarint(buf, pos, end)
    budget = spend(budget, min(count, MAX_TAGS_PER_STRUCT))
    return skip_tags(buf, pos, end), budget


# --- writing -----------------------------------------------------------------------------------


def encode_string(value: bytes | None) -> bytes:
    """Return a classic string: int16 length, then the bytes; None is null. Raises `WireError` if it is too long."""
    if value is None:
        return b"\xff\xff"
    if len(value) > _INT16_MAX:
        raise WireError(f"string length {len(value)} is outside 0..{_INT16_MAX}")
    return INT16.pack(len(value)) + value


def encode_compact(value: bytes | None) -> bytes:
    """Return a compact string or bytes field; None is null."""
    return b"\x00" if value is None else encode_uvarint(len(value) + 1) + value


def encode_count(count: int) -> bytes:
    """Return the count of a classic array; -1 is null."""
    return INT32.pack(count)


def encode_compact_count(count: int) -> bytes:
    """Return the count of a compact array; -1 is null."""
    return encode_uvarint(count + 1)
