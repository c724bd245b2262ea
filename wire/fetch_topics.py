"""The topics of a Fetch reply: the partitions, bytes, batches and records of each. The reply is never changed.

- The reader walks the reply (`wire.fetch_walk`), and keeps no record.
- Ordinary topics and partitions that are whole in a chunk are counted many at once (`wire.topic_counts`), the others
  element by element.
- A reply that is malformed or too large still passes; its topics are not known then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire import topic_runs
from wire.fetch_walk import FetchWalk
from wire.record_batches import BatchCounter, new_count
from wire.topic_counts import count_partitions, count_topics
from wire.topic_names import topic_name

if TYPE_CHECKING:
    from wire.record_batches import TopicCount


class FetchTopics(FetchWalk):
    """Reads what a Fetch reply holds of each topic: `per_topic` grows with the bytes that are fed."""

    __slots__ = ("_batches", "per_topic")

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.per_topic: list[TopicCount] = []
        self._batches = BatchCounter()

    def resume(self, count: TopicCount, left: int, field_bytes: int, batch_bytes: int) -> None:
        """Continue in a reply of one topic, which `topic_runs.follow_topic` has summed up in `count` so far."""
        self.per_topic.append(count)
        if left < 0:
            self._state = topic_runs.END
            return
        self._partitions_left = left
        if field_bytes > 0:
            self._batches.resume(count, batch_bytes)
            self._skip_bytes = field_bytes
            self._is_in_records = True
        if left and not field_bytes:
            self._state = topic_runs.PARTITION
        else:
            self._fields_end(topic_runs.IN_PARTITION if field_bytes else topic_runs.IN_TOPIC)

    def _run(self, buf: bytearray, pos: int, end: int) -> int:
        """Count the ordinary topics or partitions that are whole here; return the offset after them."""
        counts = self.per_topic
        if self._state == topic_runs.PARTITION:
            left = self._partitions_left
            pos, left = count_partitions(self.shape, counts[-1], buf, pos, end, left)
            if left != self._partitions_left:
                self._partitions_left = left
                if not left:
                    self._fields_end(topic_runs.IN_TOPIC)
        elif self._state == topic_runs.TOPIC:
            known = len(counts)
            pos, self._topics_left, self._budget = count_topics(
                self.shape, buf, pos, end, self._topics_left, self._budget, counts
            )
            self._budget += len(counts) - known  # the topics were paid for with their number
            if not self.shape.by_id:
                for count in counts[known:]:
                    topic_name(count.topic)  # raises WireError unless it is text
            if not self._topics_left:
                self._state = topic_runs.END
        return pos

    def _on_topic(self, topic: bytes) -> None:
        if not self.shape.by_id:
            topic_name(topic)  # raises WireError unless it is text
        self.per_topic.append(new_count(topic))

    def _on_partition(self, size: int) -> None:
        count = self.per_topic[-1]
        count.partitions += 1
        if size > 0:
            count.size_bytes += size
            self._batches.begin(count)
            self._is_in_records = True

    def _read_records(self, buf: bytearray, start: int, end: int) -> None:
        self._batches.feed(buf, start, end)
