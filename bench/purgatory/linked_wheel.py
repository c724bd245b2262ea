"""The hierarchical wheel with Kafka's own buckets: a doubly linked list each, with a sentinel.

Everything else is as in `proxy.core.purgatory.timing_wheel`, where a bucket is two dicts. The links are attributes
of the entry, so that adding and removing allocate nothing. Entries from a coarser wheel go before those that were
added directly, so that entries of the same millisecond fire in the order they were added, as there.
"""

from heapq import heappop, heappush

from bench.purgatory.play import Book, Request
from proxy.core.purgatory.timers import Timers
from proxy.core.purgatory.timing_wheel import Bucket, TimingWheel, Wheel


class LinkedRequest(Request):
    """A request with the two links of a list cell. Outside a list both are ALONE, and removing it does nothing."""

    __slots__ = ("after", "before")

    def __init__(self, completes_ms: int, book: Book) -> None:
        super().__init__(completes_ms, book)
        self.before: LinkedRequest = ALONE
        self.after: LinkedRequest = ALONE

    def cancel(self) -> None:
        """As in DelayedOperation; repeated here to save a call."""
        purgatory = self.purgatory
        if purgatory is not None:
            self.purgatory = None
            purgatory.num_delayed -= 1
            purgatory.forget(self)
        self.bucket = None
        before, after = self.before, self.after
        before.after = after
        after.before = before
        self.before = self.after = ALONE


class Sentinel(LinkedRequest):
    """The ends of a list: its `after` is the first entry, its `before` the last; empty, itself."""

    __slots__ = ()

    def __init__(self) -> None:
        Request.__init__(self, 0, Book([]))
        self.before = self.after = self


ALONE = Sentinel()
"""Not None, which every step would have to check; not the entry itself, which would be a reference cycle."""


class LinkedBucket(Bucket):
    """The entries of one interval."""

    __slots__ = ("sentinel",)

    def __init__(self) -> None:
        super().__init__()
        self.sentinel = Sentinel()


class LinkedWheel(TimingWheel):
    """All levels and the queue of their filled buckets."""

    __slots__ = ()

    def __init__(self, start_ms: int) -> None:
        super().__init__(start_ms)
        _link(self._finest)

    def add(self, entry: LinkedRequest) -> bool:
        """Add an entry; return False if it is due now or was cancelled."""
        if entry.bucket is None:
            return False
        at_ms = entry.at_ms
        wheel = self._finest
        if self._time_ms >= wheel.turns_ms:
            self._turn()
        if at_ms < wheel.turns_ms:
            return False
        while at_ms >= wheel.until_ms:
            wheel = wheel.overflow or self._grow(wheel)
        tick_ms = wheel.tick_ms
        bucket = wheel.buckets[at_ms // tick_ms % self._size]
        if not bucket.queued:
            bucket.queued = True
            heappush(self._queue, (at_ms - at_ms % tick_ms, -tick_ms, bucket))
        after = bucket.sentinel
        before = after.before
        entry.before = before
        entry.after = after
        before.after = after.before = entry
        return True

    def try_skip_to(self, now_ms: int) -> bool:
        """As there; `soonest_ms` is not kept here."""
        if self._queue and self._queue[0][0] <= now_ms:
            return False
        self._time_ms = now_ms
        return True

    def advance(self, now_ms: int) -> list[LinkedRequest]:
        """Advance to the first tick with entries that are due, at most to `now_ms`; return these entries."""
        queue = self._queue
        due: list[LinkedRequest] = []
        while queue and queue[0][0] <= now_ms:
            self._time_ms = expires_ms = queue[0][0]
            while queue and queue[0][0] == expires_ms:
                _, width, bucket = heappop(queue)
                bucket.queued = False
                if width == -self._finest.tick_ms:
                    _take_out(bucket.sentinel, due)
                else:
                    self._move_down(bucket.sentinel, due)
            if due:
                return due
        self._time_ms = now_ms
        return due

    def _move_down(self, sentinel: LinkedRequest, due: list[LinkedRequest]) -> None:
        """Move each entry of a coarse bucket to a finer wheel, or to `due`."""
        finest = self._finest
        if self._time_ms >= finest.turns_ms:
            self._turn()
        come: list[LinkedRequest] = []
        entry = sentinel.before
        while entry is not sentinel:  # from the last one: each goes before the present ones
            next_entry = entry.before
            at_ms = entry.at_ms
            if at_ms < finest.turns_ms:
                entry.before = entry.after = ALONE
                come.append(entry)
                entry = next_entry
                continue
            wheel = finest
            while at_ms >= wheel.until_ms:
                wheel = wheel.overflow or self._grow(wheel)
            tick_ms = wheel.tick_ms
            bucket = wheel.buckets[at_ms // tick_ms % self._size]
            if not bucket.queued:
                bucket.queued = True
                heappush(self._queue, (at_ms - at_ms % tick_ms, -tick_ms, bucket))
            before = bucket.sentinel
            after = before.after
            entry.before = before
            entry.after = after
            before.after = after.before = entry
            entry = next_entry
        sentinel.before = sentinel.after = sentinel
        come.reverse()
        due.extend(come)

    def _grow(self, wheel: Wheel) -> Wheel:
        return _link(super()._grow(wheel))


def _link(wheel: Wheel) -> Wheel:
    """Give a level buckets of linked entries."""
    wheel.buckets = [LinkedBucket() for _ in wheel.buckets]
    return wheel


def _take_out(sentinel: LinkedRequest, into: list[LinkedRequest]) -> None:
    """Empty a list; each entry is alone then."""
    entry = sentinel.after
    while entry is not sentinel:
        into.append(entry)
        after = entry.after
        entry.before = entry.after = ALONE
        entry = after
    sentinel.before = sentinel.after = sentinel


class LinkedTimers(Timers):
    """The project's Timers on this wheel. Takes LinkedRequests only."""

    __slots__ = ()

    def __init__(self, start_ms: int = 0) -> None:
        super().__init__(start_ms)
        self._wheel = LinkedWheel(start_ms)
