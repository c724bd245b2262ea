"""Counts the record batches of a Produce or Fetch, and the records in them, without reading a record.

- The counter is fed records fields in chunks of any size. Between chunks it keeps the head of one batch. Nothing is
  decompressed: the count is in the head of the batch.
- Magic 2 gives the number of records. Magic 0 and 1 are message sets: an entry counts as one record, and a compressed
  one hides how many it contains (Kafka 4 sends none).
- A Fetch may cut its last batch anywhere; a batch without a whole head is not counted.
"""

from __future__ import annotations

from typing import Final

from wire.primitives import Buffer, int32_at

_SIZE_AT: Final = 8  # after the base offset
_SIZED_FROM: Final = 12  # the size counts the bytes from here on
_MAGIC_AT: Final = 16
_COUNT_AT: Final = 57
_OLD_HEAD_BYTES: Final = 17
"""Up to the magic, which is at the same place in every version."""
_HEAD_BYTES: Final = 61


class BatchCounter:
    """Counts batches and records. `batches` and `records` are the sums over all fields that were fed."""

    __slots__ = ("_head", "_skip_bytes", "batches", "records")

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self._head = bytearray()  # of the batch that begins
        self._skip_bytes = 0  # of the batch that is passing

    def begin(self) -> None:
        """Begin another records field; a batch that the previous field cut is dropped."""
        self._head.clear()
        self._skip_bytes = 0

    def feed(self, buf: Buffer, start: int, end: int) -> None:
        """Take the field's next bytes `buf[start:end]`."""
        head = self._head
        while start < end:
            if self._skip_bytes:
                step = min(self._skip_bytes, end - start)
                self._skip_bytes -= step
                start += step
            elif not head and end - start >= _HEAD_BYTES:  # nearly always
                self._skip_bytes = self._count(buf, start)
            else:
                wanted = _OLD_HEAD_BYTES if len(head) < _OLD_HEAD_BYTES else _HEAD_BYTES
                step = min(wanted - len(head), end - start)
                head += buf[start : start + step]
                start += step
                if len(head) == _HEAD_BYTES or (
                    len(head) == _OLD_HEAD_BYTES and head[_MAGIC_AT] < 2
                ):
                    self._skip_bytes = self._count(head, 0) - len(head)
                    head.clear()

    def _count(self, buf: Buffer, at: int) -> int:
        """Count the batch whose head is at `at`. Returns its size in bytes; an impossible size counts as the head's."""
        self.batches += 1
        whole_bytes: int = int32_at(buf, at + _SIZE_AT)[0] + _SIZED_FROM
        if buf[at + _MAGIC_AT] < 2:
            self.records += 1
            return max(whole_bytes, _OLD_HEAD_BYTES)
        self.records += max(int32_at(buf, at + _COUNT_AT)[0], 0)
        return max(whole_bytes, _HEAD_BYTES)
