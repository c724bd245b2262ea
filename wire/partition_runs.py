"""Steps over the partitions of many topics of a Metadata v9+, which nearly always have the shape of those before them.

- A topic whose partitions are as many as those of the last one, and have arrays of the same sizes and no tags, takes as
  many bytes. That is so if the bytes at the places of sizes and tags are the same, which a few slices compare.
- All others are read by `wire.metadata.after_partitions`.
"""

from __future__ import annotations

from wire.metadata import after_partitions
from wire.primitives import REPLY_ELEMENT_BUDGET, Buffer, compact_count
from wire.topic_names import PARTITION_FIXED_BYTES, partition_shape

_MAX_COUNT = 126
"""The largest count whose size has one byte."""


class PartitionRuns:
    """The shape of the last topic's partitions, in one reply."""

    __slots__ = ("_count", "_places", "_size_bytes", "_stride")

    def __init__(self) -> None:
        self._count = -1
        self._size_bytes = 0
        self._stride = 1
        self._places: tuple[tuple[int, Buffer], ...] = ()

    def after(self, buf: Buffer, pos: int, end: int) -> int:
        """Return the offset after the array of partitions at `pos`. Raises `WireError` if it is malformed."""
        stop = pos + self._size_bytes
        if buf[pos] == self._count and stop <= end:
            stride = self._stride
            for place, pattern in self._places:
                if buf[pos + place : stop : stride] != pattern:
                    break
            else:
                return stop
        first = pos
        count, pos = compact_count(buf, pos, end)
        stop, _ = after_partitions(buf, pos, end, count, REPLY_ELEMENT_BUDGET)
        self._count = -1
        if 0 < count <= _MAX_COUNT and pos == first + 1:
            self._learn(buf, first, stop, count)
        return stop

    def _learn(self, buf: Buffer, first: int, stop: int, count: int) -> None:
        """Remember the shape of an array, if all of its partitions have the same."""
        pos = first + 1
        in_sync_at, offline_at, after, shape = partition_shape(buf, pos, stop)
        stride = after - pos
        if shape < 0 or stride * count != stop - pos:
            return
        places = tuple(
            (at - first, buf[at:stop:stride])
            for at in (pos + PARTITION_FIXED_BYTES, in_sync_at, offline_at, after - 1)
        )
        if all(pattern.count(pattern[:1]) == count for _, pattern in places):
            self._count, self._size_bytes = count + 1, stop - first
            self._stride, self._places = stride, places
