"""Counts the record batches of a topic in a Produce or Fetch, and the records in them, without reading a record.

- A BatchCounter is fed records fields in chunks of any size. Between chunks it keeps the head of one batch. Fields that
  are whole are counted many at once (`wire.topic_runs`).
- Nothing is decompressed: the count is in the head of the batch.
- Magic 2 gives the number of records. Magic 0 and 1 are message sets: an entry counts as one record, and a compressed
  one hides how many it contains (Kafka 4 sends none).
- A Fetch may cut its last batch anywhere; a batch without a whole head is not counted.
"""

from __future__ import annotations

from typing import Any

from wire import topic_runs


class TopicCount:
    """What one request or reply has of one topic. `topic`: its name, or from v13 the 16 bytes of its id."""

    __slots__ = ("batches", "owner", "partitions", "records", "size_bytes", "topic")

    topic: bytes
    partitions: int
    size_bytes: int
    batches: int
    records: int
    owner: Any
    """For whoever sums the counts up."""


def new_count(topic: bytes) -> TopicCount:
    """Return the count of a topic of which nothing was read yet. A constructor would be too slow."""
    count = TopicCount.__new__(TopicCount)
    count.topic = topic
    count.partitions = count.size_bytes = count.batches = count.records = 0
    count.owner = None
    return count


class BatchCounter:
    """Counts the batches and records of one records field after the other."""

    __slots__ = ("_count", "_head", "_skip_bytes")

    def __init__(self) -> None:
        self._count: TopicCount | None = None
        self._head = bytearray()  # of the batch that begins
        self._skip_bytes = 0  # of the batch that is passing

    def begin(self, count: TopicCount) -> None:
        """Begin another records field, which is counted in `count`; a batch that the previous field cut is dropped."""
        self._count = count
        self._head.clear()
        self._skip_bytes = 0

    def resume(self, count: TopicCount, skip_bytes: int) -> None:
        """Continue in a field of which so many bytes belong to a batch that is counted already."""
        self.begin(count)
        self._skip_bytes = skip_bytes

    def feed(self, buf: bytearray, start: int, end: int) -> int:
        """Take the field's next bytes `buf[start:end]`; return how many batches begin to count with them."""
        head, batches = self._head, 0
        while start < end:
            if self._skip_bytes:
                step = min(self._skip_bytes, end - start)
                self._skip_bytes -= step
                start += step
                continue
            if head:
                wanted = topic_runs.OLD_HEAD_BYTES
                if len(head) >= wanted:
                    wanted = topic_runs.HEAD_BYTES
                step = min(wanted - len(head), end - start)
                head += buf[start : start + step]
                start += step
                size, records = topic_runs.batch_at(head, 0, len(head))
                self._skip_bytes = max(size - len(head), 0)
            else:
                size, records = topic_runs.batch_at(buf, start, end)
                self._skip_bytes = size
            if size:
                self._count.batches += 1  # type: ignore[union-attr] # a field has begun
                self._count.records += records  # type: ignore[union-attr] # as above
                batches += 1
                head.clear()
            elif not head:
                head += buf[start:end]
                return batches
        return batches
