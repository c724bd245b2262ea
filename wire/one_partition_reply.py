"""OnePartitionReply: a Produce v9+ response of one topic and one partition, recognised without a walk.

Rules:
- Such a response without tags names no broker, and its throttle_time_ms lies just before its last byte.
- It is on the request path, and nearly all Produce responses have this shape. So nothing is looked up: what depends on
  the version is kept in the object, and the bytes are read by two calls (`wire.one_partition_reads`).
- "No" means only that the response must be walked.
"""

from __future__ import annotations

from typing import Final

from wire import one_partition_reads

TOPIC_IDS_SINCE: Final = 13
"""From this version on a topic has an id instead of a name."""
_TOPIC_ID_BYTES: Final = 16
_HEAD_BYTES: Final = 8 + 1 + 1  # size, correlation id; no header tags; one topic


class OnePartitionReply:
    """The shape of these responses in one version. `matches` is asked about whole frames."""

    __slots__ = ("by_id", "fixed_bytes")

    def __init__(self, version: int) -> None:
        self.by_id = version >= TOPIC_IDS_SINCE
        self.fixed_bytes = _HEAD_BYTES + one_partition_reads.TAIL_BYTES
        """All but the topic's id, or its name with the length byte."""
        if self.by_id:
            self.fixed_bytes += _TOPIC_ID_BYTES

    def matches(self, buf: bytearray, start: int, stop: int) -> bool:
        """Return whether the frame buf[start:stop] surely has this shape. It ends within the buffer."""
        topic_bytes = stop - start - self.fixed_bytes
        if topic_bytes < 0:
            return False
        head, name_bytes = one_partition_reads.head_at(buf, start + 8)
        if head != 2:  # no header tags, and a count of one, which is written as two
            return False
        if self.by_id:
            if topic_bytes != 0:
                return False
        elif topic_bytes != name_bytes or not 0 < topic_bytes < 0x80:  # the length takes one byte
            return False
        partitions, ends, tags = one_partition_reads.tail_at(
            buf, stop - one_partition_reads.TAIL_BYTES
        )
        # A count of one; no record errors (a count of none is one), no message, no tags of the partition and the topic;
        # no tags of the body.
        return partitions == 2 and ends == 0x01_00_00_00 and tags == 0
