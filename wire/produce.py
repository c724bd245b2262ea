"""Produce requests: acks, timeout, topics and partitions, but never the records.

- `read_acks` reads the start of a body; `ProduceWalker` takes the body in chunks of any size.
- Between chunks the walker keeps a state, a number of bytes to step over, and the few bytes of an element that a
  chunk boundary cut: never a record, never a tagged field, 32 KiB at most.
- Work is proportional to the bytes that are not records. Topics, partitions and tagged fields cost element budget.
- A step is one element: a topic, a partition, a tag section or a tagged field. `feed` stops after `max_steps`.
- v3 brought the transactional id before acks, v9 compact sizes and tags, v13 topic ids instead of names.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import TYPE_CHECKING, Final

from wire import produce_runs
from wire.errors import WireError
from wire.incremental import try_size, try_string
from wire.primitives import (
    ELEMENT_BUDGET,
    Buffer,
    check_tag_count,
    int16_at,
    spend,
)
from wire.topic_names import topic_name
from wire.varint import try_uvarint

if TYPE_CHECKING:
    from wire.record_batches import BatchCounter

NO_STEP_LIMIT: Final = 1 << 60
"""More steps than any body has."""

_LEND_BYTES: Final = 64
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_PACKED_TOPIC: Final = Struct(">Hi")  # length of its name or id, number of partitions


def read_acks(buf: Buffer, body_at: int, end: int, version: int) -> tuple[int, int] | None:
    """Return (acks, offset just after acks) of a Produce body; None if `end` comes before that offset."""
    pos = body_at
    if version >= 3:
        length, pos = try_string(buf, pos, end, version >= 9)
        if pos < 0:
            return None
        pos += max(length, 0)
    if pos + 2 > end:
        return None
    acks: int = int16_at(buf, pos)[0]
    return acks, pos + 2


class ProduceWalker:
    """Reads topics and partitions of one Produce body, fed in chunks of any size.

    `acks` and `timeout_ms` are None until known. `steps` counts the steps taken. `packed` grows with the bytes that are
    fed: the topics in the form of `wire.produce_partitions.pack_topics`.
    """

    __slots__ = (
        "_budget",
        "_by_id",
        "_carry",
        "_counter",
        "_flexible",
        "_last_tag",
        "_level",
        "_partitions_left",
        "_skip_bytes",
        "_state",
        "_tags_left",
        "_topics_left",
        "_transactional",
        "acks",
        "packed",
        "steps",
        "timeout_ms",
    )

    def __init__(self, version: int, *, budget: int = ELEMENT_BUDGET) -> None:
        self._begin(version, budget)

    def _begin(self, version: int, budget: int) -> None:
        """Set what a walker has at first. A subclass calls this: `super` and keywords are slow."""
        self.acks: int | None = None
        self.timeout_ms: int | None = None
        self.packed = bytearray()
        self.steps = 0
        self._transactional = version >= 3
        self._flexible = version >= 9
        self._by_id = version >= 13
        self._budget = budget
        self._state: int = produce_runs.HEAD
        self._level: int = produce_runs.IN_BODY
        self._skip_bytes = 0  # of records or of a tagged field, still to come
        self._carry = bytearray()  # the start of an element that a chunk boundary cut
        self._counter: BatchCounter | None = None  # reads the records that are stepped over
        self._topics_left = 0
        self._partitions_left = 0
        self._tags_left = 0
        self._last_tag = -1

    @property
    def topics(self) -> list[tuple[str | bytes, list[int]]]:
        """Return what was read so far: (name, or the 16 bytes of its id from v13; partition indexes)."""
        packed, pos = self.packed, 0
        found: list[tuple[str | bytes, list[int]]] = []
        while pos < len(packed):
            length, count = _PACKED_TOPIC.unpack_from(packed, pos)
            at = pos + _PACKED_TOPIC.size + length
            count = min(count, (len(packed) - at) // 4)  # the last topic may be incomplete
            found.append((self._topic_in(packed, pos), list(unpack_from(f">{count}i", packed, at))))
            pos = at + 4 * count
        return found

    def _topic_in(self, packed: bytearray, pos: int) -> str | bytes:
        at = pos + _PACKED_TOPIC.size
        name = bytes(packed[at : at + int16_at(packed, pos)[0]])
        return name if self._by_id else topic_name(name)

    @property
    def done(self) -> bool:
        """Whether the body's last byte was taken. A frame that ends earlier is malformed."""
        return self._state == produce_runs.END and not self._skip_bytes

    def feed(self, buf: Buffer, start: int, end: int, max_steps: int = NO_STEP_LIMIT) -> int:
        """Take the next body bytes `buf[start:end]`. Raises `WireError` if they cannot be valid.

        Returns the offset after the bytes that were taken: `end`, or less after `max_steps` (at least 1) steps. The
        caller then feeds the rest again.
        """
        data = buf if isinstance(buf, bytearray) else bytearray(buf)
        limit = self.steps + max_steps
        carry = self._carry
        lend_bytes = _LEND_BYTES
        while start < end:
            if self._skip_bytes:
                step = min(self._skip_bytes, end - start)
                counter = self._counter
                if counter is not None:
                    self.steps += counter.feed(data, start, start + step)
                    if step == self._skip_bytes:
                        self._counter = None
                self._skip_bytes -= step
                start += step
            elif self.steps >= limit:
                break
            elif carry:
                # Append bytes to the cut element, more each time, until it is whole.
                self.steps += 1
                kept = len(carry)
                lent = min(lend_bytes, end - start)
                whole = carry + data[start : start + lent]
                used = self._element(whole, 0, len(whole))
                if used < 0:
                    carry += whole[kept:]
                    start += lent
                    lend_bytes *= 4
                else:
                    carry.clear()
                    start += used - kept
                    lend_bytes = _LEND_BYTES
            else:
                if self._state == produce_runs.PARTITION:
                    after = self._take_partitions(data, start, end, limit)
                    if after != start:
                        start = after
                        continue
                self.steps += 1
                after = self._element(data, start, end)
                if after < 0:
                    carry += data[start:end]
                    return end
                start = after
        return start

    def _take_partitions(self, buf: bytearray, pos: int, end: int, limit: int) -> int:
        """Step over untagged partitions that are whole here; return the offset after them.

        The steps are those of their elements: a partition, and its tag section.
        """
        steps = 2 if self._flexible else 1
        most = min(self._partitions_left, (limit - self.steps) // steps)
        if most <= 0:
            return pos
        pos, left = produce_runs.take_partitions(buf, pos, end, most, self.packed, self._flexible)
        self.steps += (most - left) * steps
        self._partitions_left -= most - left
        if not self._partitions_left:
            self._fields_end(produce_runs.IN_TOPIC)
        return pos

    def _element(self, buf: bytearray, pos: int, end: int) -> int:
        """Read one element. Returns the offset after it, or -1 if it is incomplete."""
        state = self._state
        if state == produce_runs.PARTITION:
            return self._partition(buf, pos, end)
        if state == produce_runs.TAG_COUNT:
            return self._tag_count(buf, pos, end)
        if state == produce_runs.TAG:
            return self._tag(buf, pos, end)
        if state == produce_runs.TOPIC:
            return self._topic(buf, pos, end)
        if state == produce_runs.HEAD:
            return self._head(buf, pos, end)
        raise WireError(f"{end - pos} bytes follow the last field of a Produce request")

    def _head(self, buf: bytearray, pos: int, end: int) -> int:
        if self._transactional:
            length, pos = try_string(buf, pos, end, self._flexible)
            if pos < 0:
                return -1
            pos += max(length, 0)
        if pos + 6 > end:
            return -1
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(buf, pos)
        count, after = try_size(buf, pos + 6, end, self._flexible)
        if after < 0:
            return -1
        self.acks, self.timeout_ms = acks, timeout_ms
        self._topics_left = self._counted(count)
        if count:
            self._state = produce_runs.TOPIC
        else:
            self._fields_end(produce_runs.IN_BODY)
        return after

    def _topic(self, buf: bytearray, pos: int, end: int) -> int:
        length = produce_runs.TOPIC_ID_BYTES
        if not self._by_id:
            length, pos = try_string(buf, pos, end, self._flexible)
            if pos < 0:
                return -1
            if length < 0:
                raise WireError("topic name is null, expected 0 or more bytes")
        if pos + length > end:
            return -1
        count, after = try_size(buf, pos + length, end, self._flexible)
        if after < 0:
            return -1
        if not self._by_id:
            topic_name(buf[pos : pos + length])  # raises WireError unless it is text
        self._topics_left -= 1
        self._partitions_left = self._counted(count)
        produce_runs.pack_topic(self.packed, buf, pos, length, count)
        if count:
            self._state = produce_runs.PARTITION
        else:
            self._fields_end(produce_runs.IN_TOPIC)
        return after

    def _partition(self, buf: bytearray, pos: int, end: int) -> int:
        if pos + 4 > end:
            return -1
        size_bytes, after = try_size(buf, pos + 4, end, self._flexible)
        if after < 0:
            return -1
        produce_runs.pack_index(self.packed, buf, pos)
        self._skip_bytes = max(size_bytes, 0)
        self._partitions_left -= 1
        self._fields_end(produce_runs.IN_PARTITION)
        return after

    def _counted(self, count: int) -> int:
        """Return an array's count and spend the budget for it. A null array raises `WireError`, as in Kafka."""
        if count < 0:
            raise WireError(f"array count {count} of a Produce request is outside 0..{0x7FFF_FFFF}")
        self._budget -= count
        if self._budget < 0:
            spend(self._budget + count, count)  # raises BudgetError
        return count

    def _fields_end(self, level: int) -> None:
        """End the untagged fields of a struct; in flexible versions its tags follow."""
        self._level = level
        if self._flexible:
            self._state = produce_runs.TAG_COUNT
        else:
            self._struct_end()

    def _struct_end(self) -> None:
        if self._level == produce_runs.IN_PARTITION:
            if self._partitions_left:
                self._state = produce_runs.PARTITION
            else:
                self._fields_end(produce_runs.IN_TOPIC)
        elif self._level == produce_runs.IN_TOPIC:
            if self._topics_left:
                self._state = produce_runs.TOPIC
            else:
                self._fields_end(produce_runs.IN_BODY)
        else:
            self._state = produce_runs.END

    def _tag_count(self, buf: bytearray, pos: int, end: int) -> int:
        if buf[pos] == 0:  # nearly always; `pos` is before `end`
            self._struct_end()
            return pos + 1
        count, after = try_uvarint(buf, pos, end)
        if after < 0:
            return -1
        self._budget = spend(self._budget, check_tag_count(count))
        self._tags_left = count
        self._last_tag = -1
        if count:
            self._state = produce_runs.TAG
        else:
            self._struct_end()
        return after

    def _tag(self, buf: bytearray, pos: int, end: int) -> int:
        tag, after = try_uvarint(buf, pos, end)
        if after < 0:
            return -1
        size_bytes, after = try_uvarint(buf, after, end)
        if after < 0:
            return -1
        if tag <= self._last_tag:
            raise WireError(f"tag {tag} follows tag {self._last_tag}, expected a larger one")
        self._last_tag = tag
        self._skip_bytes = size_bytes
        self._tags_left -= 1
        if not self._tags_left:
            self._struct_end()
        return after
