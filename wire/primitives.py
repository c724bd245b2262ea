"""The few readers and writers that every walker of Kafka bytes is made of.

- A reader takes `(buf, pos, end)` and never looks at or behind `end`: what lies there is another
  frame or an older one. Bytes that would need it are malformed: `WireError`.
- Readers of a length return `(value, pos)`: the value, and the offset just after what was read.
- A count is checked against the bytes that its elements need at least, before anybody loops.
- Looping over elements costs budget (`spend`), and so does each tagged field (`spend_tags`): a frame of
  one-byte elements must not hold the loop. An empty tag section is part of its struct's own step.
- Integers are read with the bound `..._at` functions after `skip` has checked the room for them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from wire.errors import BudgetError, WireError

Buffer: TypeAlias = bytes | bytearray

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
int16_at: Final = INT16.unpack_from
int32_at: Final = INT32.unpack_from
int64_at: Final = INT64.unpack_from

ELEMENT_BUDGET: Final = 20_000
"""Steps that a walker takes in one request: array elements and tagged fields (parse-time denial of service)."""

REPLY_ELEMENT_BUDGET: Final = 500_000
"""The same for one reply. A cluster of 200,000 partitions fits, even if each has a topic of its own."""

MAX_TAGS_PER_STRUCT: Final = 64

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
_INT16_MAX: Final = 0x7FFF
_UINT32_MAX: Final = 0xFFFF_FFFF


# --- reading -----------------------------------------------------------------------------------


def skip(pos: int, size_bytes: int, end: int) -> int:
    """`pos + size_bytes`, if that many bytes are there."""
    stop = pos + size_bytes
    if stop > end or size_bytes < 0:
        raise WireError(f"{size_bytes} bytes needed at {pos}, {end - pos} there")
    return stop


def uvarint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits, as `(value, pos)`.

    A longer spelling of a small value (`80 00` for 0) is accepted, as Kafka's
    `ByteUtils.readUnsignedVarint` accepts it; a sixth byte or a 33rd bit is not.
    """
    if pos < end and (byte := buf[pos]) < 0x80:
        return byte, pos + 1
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _UINT32_MAX:
                raise WireError("varint exceeds 32 bits")
            return value, pos
        shift += 7
        if shift == 35:
            raise WireError("varint longer than five bytes")
    raise WireError("varint cut off")


def string_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """The int16 length of a string whose bytes are all there; -1 is null."""
    if pos + 2 > end:
        raise WireError("string length cut off")
    length: int = int16_at(buf, pos)[0]
    pos += 2
    if length < -1 or pos + length > end:
        raise WireError(f"string of {length} bytes, {end - pos} there")
    return length, pos


def compact_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """The length of a compact string, bytes or records field, all there; -1 is null."""
    length, pos = uvarint(buf, pos, end)
    length -= 1
    if pos + length > end:
        raise WireError(f"compact string of {length} bytes, {end - pos} there")
    return length, pos


def bytes_length(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """The int32 length of a bytes or records field, all there; -1 is null."""
    if pos + 4 > end:
        raise WireError("bytes length cut off")
    length: int = int32_at(buf, pos)[0]
    pos += 4
    if length < -1 or pos + length > end:
        raise WireError(f"bytes field of {length} bytes, {end - pos} there")
    return length, pos


def array_count(buf: Buffer, pos: int, end: int, min_item_bytes: int = 1) -> tuple[int, int]:
    """The int32 count of an array; -1 is null.

    Each element takes at least `min_item_bytes`, so a count that cannot fit is refused here.
    """
    if pos + 4 > end:
        raise WireError("array count cut off")
    count: int = int32_at(buf, pos)[0]
    pos += 4
    if count < -1 or count * min_item_bytes > end - pos:
        raise WireError(f"array of {count} elements, {end - pos} bytes there")
    return count, pos


def compact_count(buf: Buffer, pos: int, end: int, min_item_bytes: int = 1) -> tuple[int, int]:
    """The count of a compact array, checked as `array_count` does; -1 is null."""
    count, pos = uvarint(buf, pos, end)
    count -= 1
    if count * min_item_bytes > end - pos:
        raise WireError(f"compact array of {count} elements, {end - pos} bytes there")
    return count, pos


def skip_string(buf: Buffer, pos: int, end: int) -> int:
    """The offset after an int16-length string, null or not."""
    length, pos = string_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_compact(buf: Buffer, pos: int, end: int) -> int:
    """The offset after a compact string or bytes field, null or not."""
    if pos < end and (byte := buf[pos]) < 0x80:  # almost always: shorter than 127 bytes
        pos += byte or 1
        if pos <= end:
            return pos
        raise WireError(f"compact string of {byte - 1} bytes cut off")
    length, pos = compact_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_bytes(buf: Buffer, pos: int, end: int) -> int:
    """The offset after an int32-length bytes field, null or not."""
    length, pos = bytes_length(buf, pos, end)
    return pos + length if length > 0 else pos


def skip_tags(buf: Buffer, pos: int, end: int) -> int:
    """The offset after a tag section: at most 64 fields, tags ascending, sizes inside `end`."""
    if pos < end and buf[pos] == 0:
        return pos + 1
    count, pos = uvarint(buf, pos, end)
    if count > MAX_TAGS_PER_STRUCT:
        raise WireError(f"{count} tagged fields in one struct")
    last_tag = -1
    for _ in range(count):
        tag, pos = uvarint(buf, pos, end)
        if tag <= last_tag:
            raise WireError(f"tag {tag} after tag {last_tag}")
        last_tag = tag
        size_bytes, pos = uvarint(buf, pos, end)
        pos = skip(pos, size_bytes, end)
    return pos


def spend(budget: int, count: int) -> int:
    """What is left of an element budget after `count` more elements; null arrays cost nothing.

    Raises `BudgetError` if it is not enough.
    """
    if count <= 0:
        return budget
    budget -= count
    if budget < 0:
        raise BudgetError(f"the frame has {-budget} elements more than its element budget allows")
    return budget


def spend_tags(buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int]:
    """As `skip_tags`, for walkers: the offset, and what is left of `budget`. Each field costs one."""
    if pos < end and buf[pos] == 0:
        return pos + 1, budget
    count, _ = uvarint(buf, pos, end)
    budget = spend(budget, min(count, MAX_TAGS_PER_STRUCT))
    return skip_tags(buf, pos, end), budget


# --- writing -----------------------------------------------------------------------------------


def encode_uvarint(value: int) -> bytes:
    """`value` (0 to 2^32 - 1) in its shortest spelling."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= _UINT32_MAX:
        raise WireError(f"{value} is no unsigned varint of 32 bits")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_string(value: bytes | None) -> bytes:
    """A classic string: int16 length, then the bytes; None is null."""
    if value is None:
        return b"\xff\xff"
    if len(value) > _INT16_MAX:
        raise WireError(f"a string of {len(value)} bytes has no int16 length")
    return INT16.pack(len(value)) + value


def encode_compact(value: bytes | None) -> bytes:
    """A compact string or bytes field; None is null."""
    return b"\x00" if value is None else encode_uvarint(len(value) + 1) + value


def encode_bytes(value: bytes | None) -> bytes:
    """A classic bytes field: int32 length, then the bytes; None is null."""
    return b"\xff\xff\xff\xff" if value is None else INT32.pack(len(value)) + value


def encode_count(count: int) -> bytes:
    """The count of a classic array; -1 is null."""
    return INT32.pack(count)


def encode_compact_count(count: int) -> bytes:
    """The count of a compact array; -1 is null."""
    return encode_uvarint(count + 1)
