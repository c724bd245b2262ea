"""Sums up, or steps over, the partitions of topics in a Produce request or a Fetch reply, many in one call.

The compiled build has the same functions in C (`topic_runs.pxd`); `tests/compiled/test_twins.py` compares them.

Rules:
- Nothing is raised, and no record is read: the head of each batch has its size and its number of records.
- A partition that is cut off, has tagged fields or aborted transactions, or records of 256 MiB and more, is left to
  another reader.
- Bytes at and after `end` are old, but look valid. Each offset is compared with `end` before its byte is read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

HEADER: Final = 0
START: Final = 1
TOPIC: Final = 2
PARTITION: Final = 3
ABORTED: Final = 4
SIZE: Final = 5
TAG_COUNT: Final = 6
TAG: Final = 7
END: Final = 8
"""The element of a Fetch reply that the next bytes hold: the states of `wire.fetch_walk.FetchWalk`."""
IN_HEADER: Final = 0
IN_TOPIC: Final = 1
IN_PARTITION: Final = 2
IN_ABORTED: Final = 3
"""The struct whose fields, and then tags, end next."""

MAX_FEED_STEPS: Final = 32_768
"""Elements of a Fetch reply, and runs of ordinary ones, that are read at once."""
HEADER_BYTES: Final = 8
"""The size and the correlation id of a reply."""
_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_SIZE_AT: Final = 8  # after the base offset
_SIZED_FROM: Final = 12  # the size counts the bytes from here on
_MAGIC_AT: Final = 16
_COUNT_AT: Final = 57
OLD_HEAD_BYTES: Final = 17
"""Up to the magic of a batch, which is at the same place in every version."""
HEAD_BYTES: Final = 61


def size_at(buf: bytearray, pos: int, end: int, width: int) -> tuple[int, int]:
    """Return the size at `pos`, in `width` bytes (0: compact), and the offset after it.

    -1: it is null. -2: it is cut off, or longer than four compact bytes.
    """
    if width:
        if pos + width > end:
            return -2, pos
        return (_INT16 if width == 2 else _INT32)(buf, pos)[0], pos + width
    value = shift = 0
    while pos < end and shift < 28:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, pos
        shift += 7
    return -2, pos


def holds(buf: bytearray, pos: int, end: int, topic: bytes) -> bool:
    """Return whether buf[pos:end] begins with these bytes."""
    return pos + len(topic) <= end and buf.startswith(topic, pos)


def batch_at(buf: bytearray, pos: int, end: int) -> tuple[int, int]:
    """Return the size in bytes of the batch at `pos`, and its number of records; 0: its head is not whole before `end`.

    An impossible size counts as the head's. A message of an old format counts as one record.
    """
    if end - pos < OLD_HEAD_BYTES:
        return 0, 0
    size: int = _INT32(buf, pos + _SIZE_AT)[0] + _SIZED_FROM
    if buf[pos + _MAGIC_AT] < 2:
        return max(size, OLD_HEAD_BYTES), 1
    if end - pos < HEAD_BYTES:
        return 0, 0
    return max(size, HEAD_BYTES), max(_INT32(buf, pos + _COUNT_AT)[0], 0)


def sum_partitions(
    buf: bytearray,
    pos: int,
    end: int,
    left: int,
    fixed_bytes: int,
    has_aborted: bool,  # noqa: FBT001 - a C function has no keywords
    replica_bytes: int,
    compact: bool,  # noqa: FBT001 - as above
) -> tuple[int, int, int, int, int]:
    """Sum up at most `left` partitions from `pos` on. The layout is that of a `wire.topic_counts.TopicShape`.

    Return the offset after the last one that is whole and ordinary, how many are left, and the bytes, batches and
    records of the others. The last batch of a partition may be cut: then it counts if its head is whole.
    """
    size_bytes = batches = records = 0
    width = 0 if compact else 4
    while left:
        at = pos + fixed_bytes
        if has_aborted:
            size, at = size_at(buf, at, end, width)
            if size > 0 or size < -1:
                break
            at += replica_bytes
        size, at = size_at(buf, at, end, width)
        if size < -1:
            break
        stop = at + max(size, 0)
        if stop + compact > end or (compact and buf[stop]):
            break
        size_bytes += stop - at
        while at < stop:
            size, count = batch_at(buf, at, stop)
            if not size:
                break
            batches += 1
            records += count
            at += size
        pos = stop + compact
        left -= 1
    return pos, left, size_bytes, batches, records


def find_topic(
    buf: bytearray,
    pos: int,
    end: int,
    topic: bytes,
    by_id: bool,  # noqa: FBT001 - a C function has no keywords
    compact: bool,  # noqa: FBT001 - as above
) -> tuple[int, int]:
    """Return the number of partitions of this topic, if the topics that begin at `pos` are it alone, and their offset.

    0: they are others, or the number is not whole before `end`.
    """
    width = 0 if compact else 4
    left, pos = size_at(buf, pos, end, width)
    length = len(topic)
    if left == 1 and not by_id:
        length, pos = size_at(buf, pos, end, 0 if compact else 2)
    if left != 1 or length != len(topic) or not holds(buf, pos, end, topic):
        return 0, pos
    partitions, pos = size_at(buf, pos + length, end, width)
    return max(partitions, 0), pos


def sum_topic(
    buf: bytearray,
    pos: int,
    end: int,
    topic: bytes,
    most: int,
    by_id: bool,  # noqa: FBT001 - as above
    fixed_bytes: int,
    has_aborted: bool,  # noqa: FBT001 - as above
    replica_bytes: int,
    compact: bool,  # noqa: FBT001 - as above
) -> tuple[int, int, int, int, int]:
    """Sum up the topics that begin at `pos`, if they are this one alone, with fewer than `most` partitions.

    Return the offset after them, and the partitions, bytes, batches and records. The offset is -1 if they are others,
    or not whole and ordinary.
    """
    partitions, pos = find_topic(buf, pos, end, topic, by_id, compact)
    if not 0 < partitions < most:
        return -1, 0, 0, 0, 0
    pos, left, size_bytes, batches, records = sum_partitions(
        buf, pos, end, partitions, fixed_bytes, has_aborted, replica_bytes, compact
    )
    if left or (compact and (pos >= end or buf[pos])):
        return -1, 0, 0, 0, 0
    return pos + compact, partitions, size_bytes, batches, records


def follow_topic(
    buf: bytearray,
    pos: int,
    end: int,
    left: int,
    field_bytes: int,
    batch_bytes: int,
    fixed_bytes: int,
    has_aborted: bool,  # noqa: FBT001 - as above
    replica_bytes: int,
    compact: bool,  # noqa: FBT001 - as above
) -> tuple[int, int, int, int, int, int, int, int]:
    """Sum up what buf[pos:end] has of a topic that streams, as long as its elements are whole here and ordinary.

    `left`: its partitions that have not begun. `field_bytes`: what is to come of the records of the last one, of which
    `batch_bytes` are the rest of a batch; -1: its tag section. Return the offset after what was summed up, these three
    after it (`left` is -1 after the topic), and the partitions, bytes, batches and records.
    """
    partitions = size_bytes = batches = records = 0
    width = 0 if compact else 4
    while pos < end and left >= 0:
        if field_bytes > 0:
            stop = min(pos + field_bytes, end)
            at = min(pos + batch_bytes, stop)
            batch_bytes -= at - pos
            if at < stop:
                batch_bytes, count = batch_at(buf, at, stop)
                if batch_bytes:
                    batches += 1
                    records += count
                elif stop == pos + field_bytes:
                    at = stop  # the field ends in the head of a batch, which does not count
            if at == pos and not batch_bytes:
                break  # the read ends in the head of a batch
            field_bytes -= at - pos
            pos = at
            if not field_bytes:
                batch_bytes = 0
                field_bytes = -compact
        elif field_bytes < 0:
            if buf[pos]:
                break
            field_bytes = 0
            pos += 1
        elif left:
            at = pos + fixed_bytes
            if has_aborted:
                size, at = size_at(buf, at, end, width)
                if size > 0 or size < -1:
                    break
                at += replica_bytes
            size, at = size_at(buf, at, end, width)
            if size < -1:
                break
            left -= 1
            partitions += 1
            pos = at
            size_bytes += max(size, 0)
            field_bytes = size if size > 0 else -compact
        elif compact and buf[pos]:
            break
        else:
            pos += compact
            left = -1
    if not (left or field_bytes or compact):
        left = -1
    return pos, left, field_bytes, batch_bytes, partitions, size_bytes, batches, records


_FETCHED_BYTES: Final = 30
"""The first fields of a partition in a Fetch reply v13+: index, error, high watermark, stable offset, log start."""
_ABORTED_BYTES: Final = 17
"""An aborted transaction without tags."""
_REPLICA_BYTES: Final = 4
_TOPIC_ID_BYTES: Final = 16


def records_at(buf: bytearray, pos: int, end: int) -> tuple[int, int]:
    """Return the size of the records (-1: null) of the partition of a Fetch reply v13+ at `pos`, and where they begin.

    -2: its head is cut off, or not ordinary. Aborted transactions without tags are stepped over.
    """
    aborted, at = size_at(buf, pos + _FETCHED_BYTES, end, 0)
    if aborted < -1:
        return -2, pos
    if aborted > 0:
        stop = at + _ABORTED_BYTES * aborted
        if stop > end or any(buf[at + _ABORTED_BYTES - 1 : stop : _ABORTED_BYTES]):
            return -2, pos
        at = stop
    return size_at(buf, at + _REPLICA_BYTES, end, 0)


def step_partitions(buf: bytearray, pos: int, end: int, left: int) -> tuple[int, int]:
    """Step over at most `left` partitions of a Fetch reply v13+ from `pos` on.

    Return the offset after the last one that is whole and has no tags, and how many are left.
    """
    while left:
        size, at = records_at(buf, pos, end)
        stop = at + max(size, 0)
        if size < -1 or stop >= end or buf[stop]:
            break
        pos = stop + 1
        left -= 1
    return pos, left


def step_topics(buf: bytearray, pos: int, end: int, left: int, most: int) -> tuple[int, int, int]:
    """Step over at most `left` topics of a Fetch reply v13+ from `pos` on, with at most `most` partitions.

    Return the offset after the last one that is whole and has no tags, how many are left, and what is left of `most`. A
    topic without a partition is left to another reader: there could be very many in a read.
    """
    while left:
        partitions, at = size_at(buf, pos + _TOPIC_ID_BYTES, end, 0)
        if partitions <= 0 or partitions > most:
            break
        at, cut = step_partitions(buf, at, end, partitions)
        if cut or at >= end or buf[at]:
            break
        most -= partitions
        pos = at + 1
        left -= 1
    return pos, left, most
