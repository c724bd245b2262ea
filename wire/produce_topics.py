"""Topics of a Produce body with their usage: the partitions, bytes, batches and records of each.

The walker also reads what `ProduceWalker` steps over: the head of each record batch, but never a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire import produce_runs
from wire.errors import WireError
from wire.primitives import ELEMENT_BUDGET
from wire.produce import NO_STEP_LIMIT, ProduceWalker
from wire.record_batches import BatchCounter, new_count
from wire.topic_counts import REQUEST_SHAPES, count_partitions

if TYPE_CHECKING:
    from wire.primitives import Buffer
    from wire.record_batches import TopicCount


class ProduceTopics(ProduceWalker):
    """Reads what a Produce body holds of each topic, fed in chunks of any size.

    With `lenient` a malformed body raises nothing: `broken` becomes True, and so does `done`.
    """

    __slots__ = ("_batches", "_lenient", "broken", "per_topic", "shape")

    def __init__(self, version: int, *, lenient: bool = False) -> None:
        self._begin(version, ELEMENT_BUDGET)
        self.per_topic: list[TopicCount] = []
        self.broken = False
        self._batches = BatchCounter()
        self._lenient = lenient
        self.shape = REQUEST_SHAPES[version]

    @property
    def done(self) -> bool:
        """Whether the body's last byte was taken, or a lenient walker has met a malformed one."""
        return self.broken or (self._state == produce_runs.END and not self._skip_bytes)

    def feed(self, buf: Buffer, start: int, end: int, max_steps: int = NO_STEP_LIMIT) -> int:
        """Take the next body bytes, as `ProduceWalker.feed` does. The head of a record batch is a step too.

        The records of one partition are never left in the middle: a call may take more than `max_steps` steps for them.
        """
        if self.broken:
            return end
        try:
            return ProduceWalker.feed(self, buf, start, end, max_steps)
        except WireError:
            if not self._lenient:
                raise
            self.broken = True
            return end

    def _take_partitions(self, buf: bytearray, pos: int, end: int, limit: int) -> int:
        left = self._partitions_left
        after = ProduceWalker._take_partitions(self, buf, pos, end, limit)  # noqa: SLF001 - its own base; `super` is slow in C
        if after != pos:
            count = self.per_topic[-1]
            batches = count.batches
            count_partitions(self.shape, count, buf, pos, after, left - self._partitions_left)
            self.steps += count.batches - batches
        return after

    def _topic(self, buf: bytearray, pos: int, end: int) -> int:
        packed = len(self.packed)
        after = ProduceWalker._topic(self, buf, pos, end)  # noqa: SLF001 - as above
        if after >= 0:
            name_at = packed + produce_runs.PACKED_TOPIC_BYTES
            self.per_topic.append(
                new_count(produce_runs.piece(self.packed, name_at, len(self.packed)))
            )
        return after

    def _partition(self, buf: bytearray, pos: int, end: int) -> int:
        after = ProduceWalker._partition(self, buf, pos, end)  # noqa: SLF001 - as above
        if after >= 0:
            count = self.per_topic[-1]
            count.partitions += 1
            count.size_bytes += self._skip_bytes
            if self._skip_bytes:
                self._batches.begin(count)
                self._counter = self._batches
        return after
