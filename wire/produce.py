"""Produce requests: acks, timeout, topics and partitions, but never the records.

- `read_acks` reads the start of a body; `ProduceWalker` takes the body in chunks of any size.
- Between chunks the walker keeps a state, a number of bytes to step over, and the few bytes of an element that a
  chunk boundary cut: never a record, never a tagged field, 32 KiB at most.
- Work is proportional to the bytes that are not records. Topics, partitions and tagged fields cost element budget.
- A step is one element: a topic, a partition, a tag section or a tagged field. `feed` stops after `max_steps`.
- v3 brought the transactional id before acks, v9 compact sizes and tags, v13 topic ids instead of names.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.errors import WireError
from wire.incremental import try_size, try_string
from wire.primitives import (
    ELEMENT_BUDGET,
    Buffer,
    check_tag_count,
    int16_at,
    int32_at,
    spend,
)
from wire.topic_names import topic_name
from wire.varint import try_uvarint

if TYPE_CHECKING:
    from wire.record_batches import BatchCounter

NO_STEP_LIMIT: Final = 1 << 60
"""More steps than any body has."""

_LEND_BYTES: Final = 64
_TOPIC_ID_BYTES: Final = 16
_ACKS_AND_TIMEOUT: Final = Struct(">hi")


def read_acks(buf: Buffer, body_at: int, end: int, version: int) -> tuple[int, int] | None:
    """Return (acks, offset just after acks) of a Produce body; None if `end` comes before that offset."""
    pos = body_at
    if version >= 3:
        length, pos = try_string(buf, pos, end, compact=version >= 9)
        if pos < 0:
            return None
        pos += max(length, 0)
    if pos + 2 > end:
        return None
    acks: int = int16_at(buf, pos)[0]
    return acks, pos + 2


class _WalkState(IntEnum):
    """The kind of element that the next bytes hold."""

    HEAD = 0
    TOPIC = 1
    PARTITION = 2
    TAG_COUNT = 3
    TAG = 4
    END = 5


class _Level(IntEnum):
    """The struct whose fields, and then tags, end next."""

    BODY = 0
    TOPIC = 1
    PARTITION = 2


class ProduceWalker:
    """Reads topics and partitions of one Produce body, fed in chunks of any size.

    `acks` and `timeout_ms` are None until known. `steps` counts the steps taken. `topics` grows with the bytes that are
    fed: (name, or the 16 bytes of its id from v13, partition indexes).
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
        "steps",
        "timeout_ms",
        "topics",
    )

    def __init__(self, version: int, *, budget: int = ELEMENT_BUDGET) -> None:
        self.acks: int | None = None
        self.timeout_ms: int | None = None
        self.topics: list[tuple[str | bytes, list[int]]] = []
        self.steps = 0
        self._transactional = version >= 3
        self._flexible = version >= 9
        self._by_id = version >= 13
        self._budget = budget
        self._state = _WalkState.HEAD
        self._level = _Level.BODY
        self._skip_bytes = 0  # of records or of a tagged field, still to come
        self._carry = bytearray()  # the start of an element that a chunk boundary cut
        self._counter: BatchCounter | None = None  # reads the records that are stepped over
        self._topics_left = 0
        self._partitions_left = 0
        self._tags_left = 0
        self._last_tag = -1

    @property
    def done(self) -> bool:
        """Whether the body's last byte was taken. A frame that ends earlier is malformed."""
        return self._state is _WalkState.END and not self._skip_bytes

    def feed(self, buf: Buffer, start: int, end: int, max_steps: int = NO_STEP_LIMIT) -> int:
        """Take the next body bytes `buf[start:end]`. Raises `WireError` if they cannot be valid.

        Returns the offset after the bytes that were taken: `end`, or less after `max_steps` (at least 1) steps. The
        caller then feeds the rest again.
        """
        limit = self.steps + max_steps
        carry = self._carry
        lend_bytes = _LEND_BYTES
        while start < end:
            if self._skip_bytes:
                step = min(self._skip_bytes, end - start)
                counter = self._counter
                if counter is not None:
                    self.steps -= counter.batches
                    counter.feed(buf, start, start + step)
                    self.steps += counter.batches
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
                whole = carry + buf[start : start + lent]
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
                self.steps += 1
                after = self._element(buf, start, end)
                if after < 0:
                    carry += buf[start:end]
                    return end
                start = after
        return start

    def _element(self, buf: Buffer, pos: int, end: int) -> int:
        """Read one element. Returns the offset after it, or -1 if it is incomplete."""
        state = self._state
        if state is _WalkState.PARTITION:
            return self._partition(buf, pos, end)
        if state is _WalkState.TAG_COUNT:
            return self._tag_count(buf, pos, end)
        if state is _WalkState.TAG:
            return self._tag(buf, pos, end)
        if state is _WalkState.TOPIC:
            return self._topic(buf, pos, end)
        if state is _WalkState.HEAD:
            return self._head(buf, pos, end)
        raise WireError(f"{end - pos} bytes follow the last field of a Produce request")

    def _head(self, buf: Buffer, pos: int, end: int) -> int:
        if self._transactional:
            length, pos = try_string(buf, pos, end, compact=self._flexible)
            if pos < 0:
                return -1
            pos += max(length, 0)
        if pos + 6 > end:
            return -1
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(buf, pos)
        count, after = try_size(buf, pos + 6, end, compact=self._flexible)
        if after < 0:
            return -1
        self.acks, self.timeout_ms = acks, timeout_ms
        self._topics_left = self._counted(count)
        if count:
            self._state = _WalkState.TOPIC
        else:
            self._fields_end(_Level.BODY)
        return after

    def _topic(self, buf: Buffer, pos: int, end: int) -> int:
        length = _TOPIC_ID_BYTES
        if not self._by_id:
            length, pos = try_string(buf, pos, end, compact=self._flexible)
            if pos < 0:
                return -1
            if length < 0:
                raise WireError("topic name is null, expected 0 or more bytes")
        if pos + length > end:
            return -1
        count, after = try_size(buf, pos + length, end, compact=self._flexible)
        if after < 0:
            return -1
        name = bytes(buf[pos : pos + length])
        self.topics.append((name if self._by_id else topic_name(name), []))
        self._topics_left -= 1
        self._partitions_left = self._counted(count)
        if count:
            self._state = _WalkState.PARTITION
        else:
            self._fields_end(_Level.TOPIC)
        return after

    def _partition(self, buf: Buffer, pos: int, end: int) -> int:
        if pos + 4 > end:
            return -1
        size_bytes, after = try_size(buf, pos + 4, end, compact=self._flexible)
        if after < 0:
            return -1
        self.topics[-1][1].append(int32_at(buf, pos)[0])
        self._skip_bytes = max(size_bytes, 0)
        self._partitions_left -= 1
        self._fields_end(_Level.PARTITION)
        return after

    def _counted(self, count: int) -> int:
        """Return an array's count and spend the budget for it. A null array raises `WireError`, as in Kafka."""
        if count < 0:
            raise WireError(f"array count {count} of a Produce request is outside 0..{0x7FFF_FFFF}")
        self._budget = spend(self._budget, count)
        return count

    def _fields_end(self, level: _Level) -> None:
        """End the untagged fields of a struct; in flexible versions its tags follow."""
        self._level = level
        if self._flexible:
            self._state = _WalkState.TAG_COUNT
        else:
            self._struct_end()

    def _struct_end(self) -> None:
        if self._level is _Level.PARTITION:
            if self._partitions_left:
                self._state = _WalkState.PARTITION
            else:
                self._fields_end(_Level.TOPIC)
        elif self._level is _Level.TOPIC:
            if self._topics_left:
                self._state = _WalkState.TOPIC
            else:
                self._fields_end(_Level.BODY)
        else:
            self._state = _WalkState.END

    def _tag_count(self, buf: Buffer, pos: int, end: int) -> int:
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
            self._state = _WalkState.TAG
        else:
            self._struct_end()
        return after

    def _tag(self, buf: Buffer, pos: int, end: int) -> int:
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
