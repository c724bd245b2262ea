"""The timers of source 004 that are not hierarchical, each behind the same two calls.

Rules:
- An entry lies in the dict that it names as its `bucket`, so that cancelling it is the same for all: O(1), but for the
  heap, where it stays until its time, as in Kafka's old design.
- Time goes on tick by tick, of a millisecond, whether or not something is due; of the heap alone the first is known.
- An entry whose time has passed fires at the next tick.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.core.timing_wheel import TimerEntry


class TimerList:
    """Unordered: every tick looks at every entry."""

    def __init__(self) -> None:
        self._entries: dict[TimerEntry, None] = {}

    def add(self, entry: TimerEntry) -> None:
        """O(1)."""
        self._entries[entry] = None
        entry.bucket = self._entries

    def advance(self, now_ms: int) -> None:
        """O(n)."""
        _fire_due(self._entries, now_ms, now_ms)


class TimerHeap:
    """Ordered: only what is due is looked at, and what was cancelled since."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerEntry]] = []
        self._added = 0

    def add(self, entry: TimerEntry) -> None:
        """O(log n)."""
        self._added += 1
        heappush(self._heap, (entry.at_ms, self._added, entry))

    def advance(self, now_ms: int) -> None:
        """O(log n) for each entry, cancelled ones too."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)[2]
            if entry.bucket is not None:
                entry.fire(now_ms)


class SimpleWheel:
    """One bucket for each millisecond of the longest delay."""

    def __init__(self, size: int) -> None:
        self._now_ms = 0
        self._buckets: list[dict[TimerEntry, None]] = [{} for _ in range(size)]

    def add(self, entry: TimerEntry) -> None:
        """O(1).

        Raises:
            ValueError: it is further away than the wheel reaches.
        """
        at_ms = max(entry.at_ms, self._now_ms + 1)
        size = len(self._buckets)
        if at_ms >= self._now_ms + size:
            raise ValueError(f"{at_ms - self._now_ms} ms ahead; this wheel has {size}")
        bucket = self._buckets[at_ms % size]
        bucket[entry] = None
        entry.bucket = bucket

    def advance(self, now_ms: int) -> None:
        """O(1) a tick and an entry."""
        buckets = self._buckets
        while self._now_ms < now_ms:
            self._now_ms += 1
            bucket = buckets[self._now_ms % len(buckets)]
            for entry in tuple(bucket):
                if entry.bucket is bucket:
                    entry.fire(now_ms)
            bucket.clear()


class HashedWheel:
    """Fewer buckets than milliseconds: each holds entries of any turn, and is looked through once a turn."""

    def __init__(self, size: int) -> None:
        self._now_ms = 0
        self._buckets: list[dict[TimerEntry, None]] = [{} for _ in range(size)]

    def add(self, entry: TimerEntry) -> None:
        """O(1)."""
        at_ms = max(entry.at_ms, self._now_ms + 1)
        bucket = self._buckets[at_ms % len(self._buckets)]
        bucket[entry] = None
        entry.bucket = bucket

    def advance(self, now_ms: int) -> None:
        """O(n / size) a tick."""
        buckets = self._buckets
        while self._now_ms < now_ms:
            self._now_ms += 1
            _fire_due(buckets[self._now_ms % len(buckets)], self._now_ms, now_ms)


def _fire_due(entries: dict[TimerEntry, None], tick_ms: int, now_ms: int) -> None:
    """Take out those whose tick has come, and fire them."""
    for entry in [entry for entry in entries if entry.at_ms <= tick_ms]:
        if entry.bucket is entries:  # not cancelled by another meanwhile
            del entries[entry]
            entry.fire(now_ms)
