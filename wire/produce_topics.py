"""Topics of a Produce body with their usage: the partitions, bytes, batches and records of each.

The walker also reads what `ProduceWalker` steps over: the head of each record batch, but never a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire.errors import WireError
from wire.produce import NO_STEP_LIMIT, ProduceWalker
from wire.record_batches import BatchCounter

if TYPE_CHECKING:
    from wire.primitives import Buffer


class TopicBytes:
    """The partitions, bytes, batches and records of one topic in one frame."""

    __slots__ = ("counter", "partitions", "size_bytes", "topic")

    def __init__(self, topic: str | bytes) -> None:
        self.topic = topic
        """The topic's name, or the 16 bytes of its id."""
        self.partitions = 0
        self.size_bytes = 0
        self.counter = BatchCounter()


class ProduceTopics(ProduceWalker):
    """Reads what a Produce body holds of each topic, fed in chunks of any size.

    With `lenient` a malformed body raises nothing: `broken` becomes True, and so does `done`.
    """

    __slots__ = ("_lenient", "broken", "per_topic")

    def __init__(self, version: int, *, lenient: bool = False) -> None:
        super().__init__(version)
        self.reads_each = True
        self.per_topic: list[TopicBytes] = []
        self.broken = False
        self._lenient = lenient

    @property
    def done(self) -> bool:
        """Whether the body's last byte was taken, or a lenient walker has met a malformed one."""
        return self.broken or super().done

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

    def _topic(self, buf: bytearray, pos: int, end: int) -> int:
        after = ProduceWalker._topic(self, buf, pos, end)  # noqa: SLF001 - its own base; `super` is slow in C
        if after >= 0:
            self.per_topic.append(TopicBytes(self.newest_topic))
        return after

    def _partition(self, buf: bytearray, pos: int, end: int) -> int:
        after = ProduceWalker._partition(self, buf, pos, end)  # noqa: SLF001 - as above
        if after >= 0:
            use = self.per_topic[-1]
            use.partitions += 1
            use.size_bytes += self._skip_bytes
            use.counter.begin()
            self._counter = use.counter if self._skip_bytes else None
        return after
