"""Whole, untagged partitions of Produce requests and responses: many of them are read in one call.

The compiled build has the same functions in C (`produce_runs.pxd`); `tests/compiled/test_twins.py` compares them.

Rules:
- Clients and brokers write nearly every partition without tagged fields. A read that ends inside a partition, or a
  partition with tags, null records, or records of 2 MiB and more, is left to another reader. So nothing is raised here.
- Bytes at and after `end` are old, but look valid. Each offset is compared with `end` before its byte is read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

HEAD: Final = 0
TOPIC: Final = 1
PARTITION: Final = 2
TAG_COUNT: Final = 3
TAG: Final = 4
END: Final = 5
"""The element of a Produce body that the next bytes hold: the states of `wire.produce.ProduceWalker`."""
IN_BODY: Final = 0
IN_TOPIC: Final = 1
IN_PARTITION: Final = 2
"""The struct whose fields, and then tags, end next."""

COMPACT_SINCE: Final = 9
"""The first version with compact sizes and tagged fields."""
TOPIC_IDS_SINCE: Final = 13
"""The first version with topic ids instead of names."""
TOPIC_ID_BYTES: Final = 16
PACKED_TOPIC_BYTES: Final = 6
"""Before the name or id of a packed topic: its length, and the number of partitions."""
INDEX_BYTES: Final = 4
"""The size of a partition among packed topics. A topic takes more."""
RECORDS_SIZE_BYTES: Final = 5
"""The most bytes of the size field of the records, with which the head of a partition is complete."""

_INT32: Final = Struct(">i").unpack_from
_PACKED_TOPIC: Final = Struct(">Hi").pack  # length of its name or id, number of partitions
_RESPONSE_BYTES: Final = 33
"""An untagged partition of a response v9+: 30 bytes of numbers, no record errors, no error message."""


def piece(buf: bytearray, pos: int, end: int) -> bytes:
    """Return the bytes buf[pos:end]."""
    return bytes(buf[pos:end])


def single_partition_head_end(buf: bytearray, at: int, stop: int, version: int) -> int:
    """Return where the records begin in a body of one topic and one partition; 0 unless it surely has that shape.

    `at` is the offset just after the request's timeout. Nothing else is checked: the broker checks the request. The
    bytes before the records are enough to answer it.
    """
    if version >= TOPIC_IDS_SINCE:
        end = at + 1 + TOPIC_ID_BYTES + 1 + 4
        one = end < stop and buf[at] == 2 == buf[end - 5]
    elif version >= COMPACT_SINCE:
        if at + 2 > stop:
            return 0
        end = at + buf[at + 1] + 1 + 1 + 4
        one = buf[at + 1] < 0x80 and end < stop and buf[at] == 2 == buf[end - 5]
    else:
        if at + 6 > stop or _INT32(buf, at)[0] != 1:
            return 0
        end = at + 6 + (buf[at + 4] << 8 | buf[at + 5]) + 4 + 4
        one = end < stop and _INT32(buf, end - 8)[0] == 1
    return end if one else 0


def take_partitions(
    buf: bytearray,
    pos: int,
    end: int,
    left: int,
    packed: bytearray,
    compact: bool,  # noqa: FBT001 - a C function has no keywords
) -> tuple[int, int]:
    """Step over at most `left` partitions of a request from `pos` on, and append their indexes to `packed`.

    Return the offset after the last that is whole before `end`, and how many are left. `compact`: it is a request v9+.
    """
    while left and pos + 8 <= end:
        at = pos + 4
        if compact:
            size = buf[at]
            if size >= 0x80:
                at += 1
                size = size & 0x7F | (buf[at] & 0x7F) << 7
                if buf[at] >= 0x80:
                    at += 1
                    if buf[at] >= 0x80:
                        break
                    size |= buf[at] << 14
            stop = at + size
            if not size or stop >= end or buf[stop]:
                break
            stop += 1
        else:
            stop = at + 4 + int.from_bytes(buf[at : at + 4], "big")  # of null records: too far
            if stop > end:
                break
        packed += buf[pos : pos + 4]
        pos = stop
        left -= 1
    return pos, left


def pack_topic(
    packed: bytearray, buf: bytearray, name_at: int, length: int, partitions: int
) -> None:
    """Append a topic's head to `packed`: its name or id is in buf[name_at : name_at + length]."""
    packed += _PACKED_TOPIC(length, partitions)
    packed += buf[name_at : name_at + length]


def pack_index(packed: bytearray, buf: bytearray, pos: int) -> None:
    """Append the index of the partition at `pos` to `packed`."""
    packed += buf[pos : pos + 4]


def pack_untagged(buf: bytearray, pos: int, end: int, version: int, max_bytes: int) -> bytes | None:
    """Return the topics of the Produce request that ends at `end`; `pos` is the offset of their array.

    The form is that of `wire.produce_partitions.pack_topics`. None: the request may have tags, or a
    compact number of more than two bytes, or the result would be longer than `max_bytes`.
    """
    compact, packed = version >= COMPACT_SINCE, bytearray()
    topics, pos = _size_at(buf, pos, end, 0 if compact else 4)
    while topics > 0:
        topics -= 1
        length = TOPIC_ID_BYTES
        if version < TOPIC_IDS_SINCE:
            length, pos = _size_at(buf, pos, end, 0 if compact else 2)
        name_at = pos
        partitions, pos = _size_at(buf, pos + length, end, 0 if compact else 4)
        if length < 0 or partitions < 0 or len(packed) + 6 + length + 4 * partitions > max_bytes:
            return None
        pack_topic(packed, buf, name_at, length, partitions)
        pos, left = take_partitions(buf, pos, end, partitions, packed, compact)
        if left:
            return None
        if compact:
            if pos >= end or buf[pos]:
                return None
            pos += 1
    if topics < 0 or pos != end - compact or (compact and buf[pos]):
        return None
    return bytes(packed)


def _size_at(buf: bytearray, pos: int, end: int, width: int) -> tuple[int, int]:
    """Return the length or count at `pos`, in `width` bytes (0: compact), and the offset after it.

    -1: it is null, cut off, or a compact one of more than two bytes.
    """
    stop = pos + (width or 1)
    if stop >= end:
        return -1, pos
    if width:
        return int.from_bytes(buf[pos:stop], "big", signed=True), stop
    size = buf[pos]
    if size >= 0x80:
        if buf[stop] >= 0x80:
            return -1, pos
        size = size & 0x7F | buf[stop] << 7
        stop += 1
    return size - 1, stop


def untagged_topics_end(buf: bytearray, pos: int, end: int, by_id: bool) -> int:  # noqa: FBT001 - as above
    """Return the offset after the topics of a Produce response v9+, whose array begins at `pos`; -1: it may be odd.

    No topic and no partition has tags, record errors or an error message then. `by_id`: it is a response v13+.
    """
    topics, pos = _size_at(buf, pos, end, 0)
    if topics <= 0:
        return -1
    while topics:
        topics -= 1
        length = TOPIC_ID_BYTES
        if not by_id:
            length, pos = _size_at(buf, pos, end, 0)
        partitions, pos = _size_at(buf, pos + length, end, 0)
        stop = pos + _RESPONSE_BYTES * partitions
        if (
            length < 0
            or partitions <= 0
            or stop >= end
            or buf[stop]
            or buf[pos + 30 : stop : _RESPONSE_BYTES].count(1) != partitions
            or any(buf[pos + 31 : stop : _RESPONSE_BYTES])
            or any(buf[pos + 32 : stop : _RESPONSE_BYTES])
        ):
            return -1
        pos = stop + 1
    return pos
