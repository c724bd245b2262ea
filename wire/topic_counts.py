"""What a Produce request or a Fetch reply has of each topic: its partitions, bytes, record batches and records.

Rules:
- Whole, ordinary topics and partitions are counted here, many in one call. One that is cut off, or has tagged fields
  or aborted transactions, is left to a reader of single elements (`wire.produce_topics`, `wire.fetch_topics`).
- Nothing is raised, and no record is read.
- Bytes at and after `end` are old, but look valid. Each offset is compared with `end` before its byte is read.
"""

from __future__ import annotations

from typing import Final

from wire import produce_runs, topic_runs
from wire.record_batches import TopicCount, new_count

_FETCH_COMPACT_SINCE: Final = 12
_REPLICA_SINCE: Final = 11
"""The first Fetch version with a preferred read replica."""


class TopicShape:
    """Where the fields of topics and partitions are, in one version of a Produce request or a Fetch reply.

    `start_bytes`: what comes before the topics. `fixed_bytes`: the first fields of a partition. `has_aborted`: aborted
    transactions follow them, and then `replica_bytes`.
    """

    __slots__ = (
        "by_id",
        "compact",
        "fixed_bytes",
        "has_aborted",
        "replica_bytes",
        "start_bytes",
    )

    def __init__(self, version: int, *, is_request: bool) -> None:
        self.by_id = version >= produce_runs.TOPIC_IDS_SINCE
        if is_request:
            self.compact = version >= produce_runs.COMPACT_SINCE
            self.start_bytes = 0  # it depends on the request
            self.fixed_bytes = 4  # index
            self.has_aborted = False
            self.replica_bytes = 0
        else:
            self.compact = version >= _FETCH_COMPACT_SINCE
            # Size and correlation id, tags, throttle time, error and session id.
            self.start_bytes = 8 + self.compact + 4 * (version >= 1) + 6 * (version >= 7)
            # Index, error and high watermark; last stable offset; log start offset.
            self.fixed_bytes = 14 + 8 * (version >= 4) + 8 * (version >= 5)
            self.has_aborted = version >= 4
            self.replica_bytes = 4 * (version >= _REPLICA_SINCE)


REQUEST_SHAPES: Final = tuple(TopicShape(version, is_request=True) for version in range(32))
REPLY_SHAPES: Final = tuple(TopicShape(version, is_request=False) for version in range(32))
"""By version: more of them than Kafka has."""


def count_request(
    shape: TopicShape, buf: bytearray, pos: int, end: int, most: int
) -> list[TopicCount] | None:
    """Return the topics of the whole Produce request that ends at `end`; `pos` is the offset of their array.

    None: it is not ordinary, or has more than `most` topics and partitions.
    """
    left, pos = topic_runs.size_at(buf, pos, end, _width(shape, 4))
    found: list[TopicCount] = []
    if left > 0:
        pos, left, most = count_topics(shape, buf, pos, end, left, most, found)
    if left or pos + shape.compact != end or (shape.compact and buf[pos]):
        return None
    return found


def count_reply(
    shape: TopicShape, buf: bytearray, start: int, end: int, most: int
) -> list[TopicCount] | None:
    """Return the topics of the whole Fetch reply in buf[start:end]. None: as of `count_request`.

    What follows them is not read.
    """
    pos = start + shape.start_bytes
    if pos > end or (shape.compact and buf[start + 8]):
        return None
    left, pos = topic_runs.size_at(buf, pos, end, _width(shape, 4))
    found: list[TopicCount] = []
    if left > 0:
        pos, left, most = count_topics(shape, buf, pos, end, left, most, found)
    return None if left > 0 or left < -1 else found


def count_topics(
    shape: TopicShape,
    buf: bytearray,
    pos: int,
    end: int,
    left: int,
    most: int,
    found: list[TopicCount],
) -> tuple[int, int, int]:
    """Append at most `left` topics from `pos` on to `found`, with at most `most` topics and partitions.

    Return the offset after the last one that is whole and ordinary, how many are left, and what is left of `most`.
    """
    while left:
        length, at = produce_runs.TOPIC_ID_BYTES, pos
        if not shape.by_id:
            length, at = topic_runs.size_at(buf, pos, end, _width(shape, 2))
        if length < 0:
            break
        partitions, stop = topic_runs.size_at(buf, at + length, end, _width(shape, 4))
        # A topic without a partition is not ordinary: there could be very many in a read.
        if partitions <= 0 or partitions >= most:
            break
        count = new_count(produce_runs.piece(buf, at, at + length))
        stop, cut = count_partitions(shape, count, buf, stop, end, partitions)
        if cut or (shape.compact and (stop >= end or buf[stop])):
            break
        found.append(count)
        most -= 1 + partitions
        pos = stop + shape.compact
        left -= 1
    return pos, left, most


def count_partitions(
    shape: TopicShape, count: TopicCount, buf: bytearray, pos: int, end: int, left: int
) -> tuple[int, int]:
    """Add at most `left` partitions from `pos` on to `count`.

    Return the offset after the last one that is whole and ordinary, and how many are left.
    """
    stop, cut, size_bytes, batches, records = topic_runs.sum_partitions(
        buf,
        pos,
        end,
        left,
        shape.fixed_bytes,
        shape.has_aborted,
        shape.replica_bytes,
        shape.compact,
    )
    count.partitions += left - cut
    count.size_bytes += size_bytes
    count.batches += batches
    count.records += records
    return stop, cut


def _width(shape: TopicShape, width: int) -> int:
    return 0 if shape.compact else width
