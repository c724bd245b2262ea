"""UntaggedReply: a Produce v9+ or a Fetch v16+ response without tagged fields, recognised without a walk.

Rules:
- Such a response names no broker. The throttle_time_ms of a Produce lies just before its last byte.
- It is on the request path, and nearly all responses have this shape. So nothing is looked up: what depends on
  the version is kept in the object. One topic with one partition is recognised by two reads
  (`wire.one_partition_reads`), any others by one call (`wire.produce_runs`). Records are stepped over by their sizes
  (`wire.topic_runs`).
- "No" means only that the response must be walked: record errors or an error message take another length.
"""

from __future__ import annotations

from typing import Final

from wire import one_partition_reads, produce_runs, topic_runs
from wire.primitives import REPLY_ELEMENT_BUDGET
from wire.produce_runs import TOPIC_ID_BYTES, TOPIC_IDS_SINCE

_HEAD_BYTES: Final = 8 + 1 + 1  # size, correlation id; no header tags; one topic


_FETCH_HEAD_BYTES: Final = (
    8 + 1 + 10
)  # size, correlation id; no header tags; throttle time, error and session id


class UntaggedReply:
    """The shape of these responses to Produce in one version. `matches` is asked about whole frames."""

    __slots__ = ("by_id", "one_partition_bytes")

    def __init__(self, version: int) -> None:
        self.by_id = version >= TOPIC_IDS_SINCE
        self.one_partition_bytes = _HEAD_BYTES + one_partition_reads.TAIL_BYTES
        """The frame of one partition without the topic's id, or without its name and the length byte."""
        if self.by_id:
            self.one_partition_bytes += TOPIC_ID_BYTES

    def matches(self, buf: bytearray, start: int, stop: int) -> bool:
        """Return whether the frame buf[start:stop] surely has this shape. It ends within the buffer."""
        topic_bytes = stop - start - self.one_partition_bytes
        if topic_bytes < 0:
            return False
        head, name_bytes = one_partition_reads.head_at(buf, start + 8)
        if head == 2 and (  # no header tags, and a count of one, which is written as two
            topic_bytes == 0 if self.by_id else topic_bytes == name_bytes and 0 < topic_bytes < 0x80
        ):
            partitions, ends, tags = one_partition_reads.tail_at(
                buf, stop - one_partition_reads.TAIL_BYTES
            )
            # A count of one; no record errors (a count of none is one), no message, no tags of the partition and the
            # topic; no tags of the body.
            return partitions == 2 and ends == 0x01_00_00_00 and tags == 0
        if head >= 0x100 or buf[stop - 1]:  # tags of the header, or of the body
            return False
        after = produce_runs.untagged_topics_end(buf, start + 9, stop, self.by_id)
        return after == stop - 5  # the throttle time, and the count of the body's tags


class UntaggedFetch(UntaggedReply):
    """The shape of these responses to Fetch."""

    __slots__ = ()

    def matches(self, buf: bytearray, start: int, stop: int) -> bool:
        """Return whether the frame buf[start:stop] surely has this shape. It ends within the buffer."""
        at = start + _FETCH_HEAD_BYTES
        if at + 2 > stop or buf[start + 8] or buf[stop - 1]:
            return False
        topics, at = topic_runs.size_at(buf, at, stop, 0)
        if topics < 0:
            return False
        after, left, _ = topic_runs.step_topics(buf, at, stop, topics, REPLY_ELEMENT_BUDGET)
        return not left and after == stop - 1
