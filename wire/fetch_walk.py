"""Steps over the topics of a Fetch reply that streams, up to the tagged fields after them. Nothing is changed or kept.

- The walk is fed the whole frame, length included, in chunks of any size. Between chunks it keeps a state, a number of
  bytes to step over, and the few bytes of an element that was cut. Records are stepped over by their size.
- Whole partitions and topics without tagged fields are stepped over many at once (`wire.topic_runs`), the others
  element by element.
- Topics have names before v13 and ids from v13 on. v12 brought compact sizes and tags.
- A reply that is malformed or too large ends the walk and sets `broken`. It is too large if it has more elements than
  the budget of a reply, or needs more than MAX_FEED_STEPS steps in one `feed`.
"""

from __future__ import annotations

from typing import Final

from wire import produce_runs, topic_runs
from wire.errors import BudgetError, WireError
from wire.incremental import try_size, try_string
from wire.primitives import REPLY_ELEMENT_BUDGET, check_tag_count, spend
from wire.topic_counts import REPLY_SHAPES
from wire.varint import try_uvarint

_LEND_BYTES: Final = 64
_ABORTED_BYTES: Final = 16


class FetchWalk:
    """Finds where the topics of a Fetch reply end.

    `tail_at`: the offset in the last chunk after the last byte that belongs to them. `broken` is True after a reply
    that cannot be read.
    """

    __slots__ = (
        "_aborted_left",
        "_budget",
        "_carry",
        "_is_in_records",
        "_level",
        "_partitions_left",
        "_skip_bytes",
        "_state",
        "_tags_left",
        "_topics_left",
        "broken",
        "shape",
        "tail_at",
    )

    def __init__(self, version: int) -> None:
        self.shape = REPLY_SHAPES[version]
        self._carry = bytearray()  # the start of an element that a chunk boundary cut
        self.restart()

    def restart(self) -> None:
        """Begin the walk of another reply."""
        self.broken = False
        self.tail_at = 0
        self._budget = REPLY_ELEMENT_BUDGET
        if self._carry:
            self._carry.clear()
        self._state: int = topic_runs.HEADER
        self._level: int = topic_runs.IN_HEADER
        self._skip_bytes = 0  # of records or of a tagged field, still to come
        self._is_in_records = False  # and they are read
        self._topics_left = 0
        self._partitions_left = 0
        self._aborted_left = 0
        self._tags_left = 0

    @property
    def done(self) -> bool:
        """Whether the last field of the last topic was taken. What follows is not read."""
        return self._state == topic_runs.END and not self._skip_bytes

    def feed(self, buf: bytearray, start: int, end: int) -> None:
        """Take the frame's next bytes `buf[start:end]`. A malformed reply raises nothing: it sets `broken`."""
        if self.broken:
            return
        if (
            self._skip_bytes >= end - start and not self._is_in_records
        ):  # most reads of long records
            self._skip_bytes -= end - start
            self.tail_at = end
            return
        try:
            self._take(buf, start, end)
        except WireError:
            self.broken = True

    def _take(self, buf: bytearray, start: int, end: int) -> None:
        carry = self._carry
        steps = 0
        while start < end and (self._skip_bytes or self._state != topic_runs.END):
            if self._skip_bytes:
                step = min(self._skip_bytes, end - start)
                if self._is_in_records:
                    self._read_records(buf, start, start + step)
                self._skip_bytes -= step
                start += step
                continue
            steps += 1
            if steps > topic_runs.MAX_FEED_STEPS:
                most = topic_runs.MAX_FEED_STEPS
                raise BudgetError(f"more than {most} steps in one chunk of a Fetch reply")
            if carry:
                kept = len(carry)
                whole = carry + buf[start : min(start + max(_LEND_BYTES, kept), end)]
                after = self._element(whole, 0, len(whole))
                if after < 0:
                    carry += whole[kept:]
                    start += len(whole) - kept
                else:
                    carry.clear()
                    start += after - kept
                continue
            if self._state == topic_runs.TAG_COUNT and not buf[start]:  # nearly always
                self._struct_end()
                start += 1
                continue
            after = self._run(buf, start, end)
            if after == start:
                after = self._element(buf, start, end)
                if after < 0:
                    carry += buf[start:end]
                    start = end
                    break
            start = after
        self.tail_at = start

    def _run(self, buf: bytearray, pos: int, end: int) -> int:
        """Step over the ordinary topics or partitions that are whole here; return the offset after them.

        Of an ordinary partition that is not, this is where its records begin.
        """
        if self._state == topic_runs.PARTITION:
            if not self.shape.by_id:
                return pos
            pos, self._partitions_left = topic_runs.step_partitions(
                buf, pos, end, self._partitions_left
            )
            if not self._partitions_left:
                self._fields_end(topic_runs.IN_TOPIC)
                return pos
            size, after = topic_runs.records_at(buf, pos, end)
            if size >= 0:
                self._partitions_left -= 1
                self._skip_bytes = size
                self._fields_end(topic_runs.IN_PARTITION)
                return after
        elif self._state == topic_runs.TOPIC and self.shape.by_id:
            pos, self._topics_left, self._budget = topic_runs.step_topics(
                buf, pos, end, self._topics_left, self._budget
            )
            if not self._topics_left:
                self._state = topic_runs.END
        return pos

    # -- what a subclass reads -------------------------------------------------------------------

    def _on_topic(self, topic: bytes) -> None:
        """Do nothing with the name or id of a topic that begins."""

    def _on_partition(self, size: int) -> None:
        """Do nothing with the partition of the last topic that has records of this size; -1: null."""

    def _read_records(self, buf: bytearray, start: int, end: int) -> None:
        """Do nothing with the next bytes of records."""

    # -- elements: they return the offset after them, or -1 if they are incomplete ---------------------

    def _element(self, buf: bytearray, pos: int, end: int) -> int:
        state = self._state
        if state == topic_runs.PARTITION:
            return self._partition(buf, pos, end)
        if state == topic_runs.SIZE:
            return self._size(buf, pos, end)
        if state == topic_runs.TAG_COUNT:
            return self._tag_count(buf, pos, end)
        if state == topic_runs.TOPIC:
            return self._topic(buf, pos, end)
        if state == topic_runs.ABORTED:
            if pos + _ABORTED_BYTES > end:
                return -1
            self._aborted_left -= 1
            self._fields_end(topic_runs.IN_ABORTED)
            return pos + _ABORTED_BYTES
        if state == topic_runs.TAG:
            return self._tag(buf, pos, end)
        if state == topic_runs.START:
            return self._start(buf, pos, end)
        if pos + topic_runs.HEADER_BYTES > end:
            return -1
        self._fields_end(topic_runs.IN_HEADER)
        return pos + topic_runs.HEADER_BYTES

    def _start(self, buf: bytearray, pos: int, end: int) -> int:
        shape = self.shape
        at = pos + shape.start_bytes - topic_runs.HEADER_BYTES - shape.compact
        count, after = try_size(buf, at, end, shape.compact)
        if after < 0:
            return -1
        self._topics_left = self._counted(count)
        self._state = topic_runs.TOPIC if self._topics_left else topic_runs.END
        return after

    def _topic(self, buf: bytearray, pos: int, end: int) -> int:
        shape, length = self.shape, produce_runs.TOPIC_ID_BYTES
        if not shape.by_id:
            length, pos = try_string(buf, pos, end, shape.compact)
            if pos < 0:
                return -1
            if length < 0:
                raise WireError("topic name is null, expected 0 or more bytes")
        count, after = try_size(buf, pos + length, end, shape.compact)
        if after < 0:
            return -1
        self._on_topic(produce_runs.piece(buf, pos, pos + length))
        self._topics_left -= 1
        self._partitions_left = self._counted(count)
        if self._partitions_left:
            self._state = topic_runs.PARTITION
        else:
            self._fields_end(topic_runs.IN_TOPIC)
        return after

    def _partition(self, buf: bytearray, pos: int, end: int) -> int:
        """Read the first fields of a partition, and the number of its aborted transactions."""
        shape = self.shape
        after = pos + shape.fixed_bytes
        aborted = 0
        if shape.has_aborted:
            aborted, after = try_size(buf, after, end, shape.compact)
        if after < 0 or after > end:
            return -1
        self._aborted_left = self._counted(aborted)
        self._state = topic_runs.ABORTED if self._aborted_left else topic_runs.SIZE
        return after

    def _size(self, buf: bytearray, pos: int, end: int) -> int:
        """Read the other fields of a partition, before its records."""
        shape = self.shape
        size, after = try_size(buf, pos + shape.replica_bytes, end, shape.compact)
        if after < 0:
            return -1
        self._partitions_left -= 1
        self._skip_bytes = max(size, 0)
        self._on_partition(size)
        self._fields_end(topic_runs.IN_PARTITION)
        return after

    def _counted(self, count: int) -> int:
        """Spend the budget for an array's count, and return it; a null array is empty."""
        if count <= 0:
            return 0
        self._budget -= count
        if self._budget < 0:
            spend(self._budget + count, count)  # raises BudgetError
        return count

    def _fields_end(self, level: int) -> None:
        """End the untagged fields of a struct; in flexible versions its tags follow."""
        self._level = level
        if self.shape.compact:
            self._state = topic_runs.TAG_COUNT
        else:
            self._struct_end()

    def _struct_end(self) -> None:
        level = self._level
        if level == topic_runs.IN_PARTITION:
            if self._partitions_left:
                self._state = topic_runs.PARTITION
            else:
                self._fields_end(topic_runs.IN_TOPIC)
        elif level == topic_runs.IN_TOPIC:
            self._state = topic_runs.TOPIC if self._topics_left else topic_runs.END
        elif level == topic_runs.IN_ABORTED:
            self._state = topic_runs.ABORTED if self._aborted_left else topic_runs.SIZE
        else:
            self._state = topic_runs.START

    def _tag_count(self, buf: bytearray, pos: int, end: int) -> int:
        if buf[pos] == 0:  # nearly always; `pos` is before `end`
            self._struct_end()
            return pos + 1
        count, after = try_uvarint(buf, pos, end)
        if after < 0:
            return -1
        if count:
            self._budget = spend(self._budget, check_tag_count(count))
            self._tags_left = count
            self._state = topic_runs.TAG
        else:
            self._struct_end()
        return after

    def _tag(self, buf: bytearray, pos: int, end: int) -> int:
        _, after = try_uvarint(buf, pos, end)
        if after < 0:
            return -1
        size, after = try_uvarint(buf, after, end)
        if after < 0:
            return -1
        self._skip_bytes = size
        self._is_in_records = False
        self._tags_left -= 1
        if not self._tags_left:
            self._struct_end()
        return after
