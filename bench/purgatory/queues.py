"""The timers that are not hierarchical (list, heap, simple wheel, hashed wheel), and a purgatory that does nothing.

- An entry's `bucket` is the dict that holds it. Cancelling is O(1); in the heap, a cancelled entry stays until its
  time, as in Kafka's old design.
- Time advances in ticks of a millisecond, whether or not an entry is due. Only the heap knows its first entry.
- An entry whose time has passed fires at the next tick.
"""

from collections.abc import Collection, Hashable
from heapq import heappop, heappush

from bench.purgatory.play import Request
from proxy.core.purgatory.purgatory import DelayedOperation, Purgatory
from proxy.core.purgatory.timing_wheel import TimerEntry


class TimerList:
    """A list: every tick checks every entry."""

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
    """A heap: a tick checks the entries that are due, cancelled ones included."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerEntry]] = []
        self._added = 0

    def add(self, entry: TimerEntry) -> None:
        """O(log n)."""
        self._added += 1
        heappush(self._heap, (entry.at_ms, self._added, entry))

    def advance(self, now_ms: int) -> None:
        """O(log n) for each entry that is due, cancelled ones included."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)[2]
            if entry.bucket is not None:
                entry.fire(now_ms)


class HashedWheel:
    """Fewer buckets than milliseconds: a bucket has entries of several turns, and each turn checks all of them."""

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
        """O(n / size) for each tick."""
        buckets = self._buckets
        while self._now_ms < now_ms:
            self._now_ms += 1
            _fire_due(buckets[self._now_ms % len(buckets)], self._now_ms, now_ms)


class SimpleWheel(HashedWheel):
    """One bucket for each millisecond up to the longest delay, so that all entries of a bucket are due at once."""

    def advance(self, now_ms: int) -> None:
        """O(1) for each tick and each entry."""
        buckets = self._buckets
        while self._now_ms < now_ms:
            self._now_ms += 1
            bucket = buckets[self._now_ms % len(buckets)]
            for entry in tuple(bucket):
                if entry.bucket is bucket:
                    entry.fire(now_ms)
            bucket.clear()


class NoPurgatory(Purgatory):
    """Drops every request; a run with it measures the cost of the benchmark itself."""

    __slots__ = ()

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], at_ms: int, now_ms: int
    ) -> bool:
        """Complete at once what would expire; return whether it was completed."""
        if isinstance(operation, Request) and operation.completes_ms >= at_ms:
            return operation.force_complete(now_ms)
        return False


def _fire_due(entries: dict[TimerEntry, None], tick_ms: int, now_ms: int) -> None:
    """Remove and fire the entries that are due."""
    for entry in [entry for entry in entries if entry.at_ms <= tick_ms]:
        if entry.bucket is entries:  # another entry may have cancelled it
            del entries[entry]
            entry.fire(now_ms)
