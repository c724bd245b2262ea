"""The topics of a Fetch reply: the partitions, bytes, batches and records of each. The reply is never changed.

- The reader is fed the whole frame, length included, in chunks of any size. Between chunks it keeps only the few
  bytes of an element that was cut, never a record.
- One generator reads: it asks for a number of bytes, or to step over a number of bytes.
- Topics have names before v13 and ids from v13 on. v12 brought compact sizes and tags.
- A reply that is malformed or too large ends the reading and sets `broken`; the reply still passes. It is too large
  if it has more elements than the budget of a reply, or needs more than MAX_FEED_STEPS steps in one `feed`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.errors import BudgetError, WireError
from wire.primitives import (
    INT16,
    INT32,
    REPLY_ELEMENT_BUDGET,
    Buffer,
    check_tag_count,
    spend,
)
from wire.produce_topics import TopicBytes
from wire.topic_names import topic_name
from wire.varint import UINT32_MAX

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_FEED_STEPS: Final = 32_768
"""Values that one `feed` reads. 256 KiB of empty partitions need fewer."""

_ASK: Final = 0
_STEP_OVER: Final = 1
_RECORDS: Final = 2
_TOPIC_ID_BYTES: Final = 16
_ABORTED: Final = Struct(">qq")
_FIXED_BYTES: Final = (
    4 + 2 + 8 + 8 + 8
)  # index, error, high watermark, last stable, log start offset

if TYPE_CHECKING:
    Reading = Generator[tuple[int, int], bytes, None]
    IntReading = Generator[tuple[int, int], bytes, int]


class FetchTopics:
    """Reads what a Fetch reply holds of each topic.

    `per_topic` grows with the bytes that are fed. `done` is True after the last field, `broken` after a reply that
    cannot be read.
    """

    __slots__ = ("_by_id", "_carry", "_flexible", "_left", "_reader", "_version", "_wish", "broken",
                 "done", "per_topic")  # fmt: skip

    def __init__(self, version: int) -> None:
        self.per_topic: list[TopicBytes] = []
        self.broken = False
        self.done = False
        self._version = version
        self._flexible = version >= 12
        self._by_id = version >= 13
        self._left = REPLY_ELEMENT_BUDGET
        self._carry = bytearray()
        self._reader = self._frame()
        self._wish = next(self._reader)

    def feed(self, buf: Buffer, start: int, end: int) -> None:
        """Take the frame's next bytes `buf[start:end]`. A malformed reply raises nothing: it sets `broken`."""
        if self.broken or self.done:
            return
        try:
            self._take(buf, start, end)
        except WireError:
            self.broken = True

    def _take(self, buf: Buffer, start: int, end: int) -> None:
        carry = self._carry
        steps = 0
        while not self.done:
            steps += 1
            if steps > MAX_FEED_STEPS:
                raise BudgetError(
                    f"more than {MAX_FEED_STEPS} values in one chunk of a Fetch reply"
                )
            kind, size_bytes = self._wish
            if kind == _ASK:
                lacking = size_bytes - len(carry)
                if end - start < lacking:
                    carry += buf[start:end]
                    return
                if carry:
                    carry += buf[start : start + lacking]
                    got = bytes(carry)
                    carry.clear()
                else:
                    got = bytes(buf[start : start + lacking])
                start += lacking
            else:
                step = min(size_bytes, end - start)
                if kind == _RECORDS:
                    self.per_topic[-1].counter.feed(buf, start, start + step)
                start += step
                if step < size_bytes:
                    self._wish = (kind, size_bytes - step)
                    return
                got = b""
            try:
                self._wish = self._reader.send(got)
            except StopIteration:
                self.done = True

    # -- the fields of a reply, in order ------------------------------------------------------------

    def _frame(self) -> Reading:
        yield _STEP_OVER, 8  # size and correlation id
        if self._flexible:
            yield from self._tags()
        version = self._version
        yield _STEP_OVER, (4 if version >= 1 else 0) + (6 if version >= 7 else 0)
        for _ in range((yield from self._count())):
            yield from self._topic()

    def _topic(self) -> Reading:
        partition = self._compact_partition if self._flexible else self._classic_partition
        length = _TOPIC_ID_BYTES
        if not self._by_id:
            length = yield from self._length()
        name = yield _ASK, length
        self.per_topic.append(TopicBytes(name if self._by_id else topic_name(name)))
        for _ in range((yield from self._count())):
            yield from partition()
        if self._flexible:
            yield from self._tags()

    def _compact_partition(self) -> Reading:
        """Read a partition of v12 or later in as few steps as possible, because replies have many partitions."""
        aborted = (yield _ASK, _FIXED_BYTES + 1)[-1]
        if aborted > 1:
            aborted = yield from self._uvarint(aborted)
            self._left = spend(self._left, aborted - 1)
            for _ in range(aborted - 1):
                yield _STEP_OVER, _ABORTED.size
                yield from self._tags()
        size_bytes = (yield _ASK, 5)[-1]  # the preferred read replica, then the size of the records
        if size_bytes >= 0x80:
            size_bytes = yield from self._uvarint(size_bytes)
        yield from self._records(size_bytes - 1)
        yield from self._tags()

    def _classic_partition(self) -> Reading:
        version = self._version
        # index, error, high watermark; last stable offset; log start offset
        yield _STEP_OVER, 14 + (8 if version >= 4 else 0) + (8 if version >= 5 else 0)
        if version >= 4:
            aborted = yield from self._count()
            yield _STEP_OVER, aborted * _ABORTED.size
        if version >= 11:
            yield _STEP_OVER, 4  # preferred read replica
        yield from self._records((yield from self._size()))

    def _records(self, size_bytes: int) -> Reading:
        use = self.per_topic[-1]
        use.partitions += 1
        if size_bytes > 0:
            use.size_bytes += size_bytes
            use.counter.begin()
            yield _RECORDS, size_bytes

    # -- values ----------------------------------------------------------------------------------

    def _count(self) -> IntReading:
        """Read an array's count and spend the budget for it; a null array is empty."""
        count = max((yield from self._size()), 0)
        self._left = spend(self._left, count)
        return count

    def _size(self) -> IntReading:
        if self._flexible:
            return (yield from self._uvarint()) - 1
        return int(INT32.unpack((yield _ASK, 4))[0])

    def _length(self) -> IntReading:
        length = (
            (yield from self._uvarint()) - 1
            if self._flexible
            else int(INT16.unpack((yield _ASK, 2))[0])
        )
        if not 0 <= length <= 0x7FFF:
            raise WireError(f"topic name length {length} is outside 0..{0x7FFF}")
        return length

    def _uvarint(self, first: int = -1) -> IntReading:
        """Read a varint; `first` is its first byte if that was read already."""
        byte = first if first >= 0 else (yield _ASK, 1)[0]
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            if shift == 35:
                raise WireError("varint has more than 5 bytes, expected 1..5")
            byte = (yield _ASK, 1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
        if value > UINT32_MAX:
            raise WireError(f"varint {value} is outside 0..{UINT32_MAX}")
        return value

    def _tags(self) -> Reading:
        count = (yield _ASK, 1)[0]
        if not count:
            return
        count = check_tag_count((yield from self._uvarint(count)))
        self._left = spend(self._left, count)
        for _ in range(count):
            yield from self._uvarint()
            yield _STEP_OVER, (yield from self._uvarint())
