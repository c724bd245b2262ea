"""Kafka's hierarchical timing wheel: what is due later, added and taken away at O(1).

Source: Kafka's `TimingWheel`, `TimerTaskList`, `SystemTimer`.

Rules:
- The finest wheel has buckets of one tick; each overflow wheel, made on demand, has buckets as wide as the whole
  wheel below it. Buckets lie at multiples of their width, not of the start.
- An entry goes into the finest wheel that reaches its time, in the bucket that begins at or before it. That of
  the current tick is never used: whatever falls into it is due now, and `add` refuses it.
- Only buckets that were filled stand in the queue, once per turn of their wheel. The queue drives the clock, so
  no time is spent where nothing waits. A bucket whose entries were all cancelled still comes up.
- When a coarse bucket comes up, its entries move down; when a finest one does, they are due. So with a tick of one
  millisecond nothing is early; with a wider one an entry may come up to a tick less one early, never late.
- Entries due in the same millisecond come in the order they were added. (Kafka promises none.) Of two such entries
  the older was never put into a finer wheel than the newer; hence two dicts a bucket, those that came down before
  those added to it directly, and of buckets that come up together the coarser first.

A bucket's dicts keep their order, add and remove in C: a tenth less CPU per request than Kafka's doubly linked list
takes here. bench/purgatory has both.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

NOWHERE: Final[dict[TimerEntry, None]] = {}
"""What an entry lies in that was never added: empty, always."""


class TimerEntry:
    """What is due at `at_ms`: subclass it. `at_ms` may change only before it is added (again)."""

    __slots__ = ("at_ms", "bucket")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.bucket: dict[TimerEntry, None] | None = NOWHERE
        """Where it lies, or lay when it came up; None when it was cancelled."""

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.bucket is None

    def cancel(self) -> None:
        """Take it out, for good, wherever it is: in a bucket, on its way, due, or not added at all."""
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """It is due. What happens then is the subclass's."""
        raise NotImplementedError


class Bucket:
    """The entries of one stretch of time.

    It is `queued` until that comes, so it cannot be wanted for another turn of its wheel while it is.
    """

    __slots__ = ("added", "moved", "queued")

    def __init__(self) -> None:
        self.queued = False
        self.moved: dict[TimerEntry, None] = {}
        self.added: dict[TimerEntry, None] = {}


class Wheel:
    """One level: `size` buckets of `tick_ms`, reaching from `turns_ms` to just before `until_ms`."""

    __slots__ = ("buckets", "interval_ms", "overflow", "tick_ms", "turns_ms", "until_ms")

    def __init__(self, tick_ms: int, size: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * size
        self.buckets = [Bucket() for _ in range(size)]
        self.overflow: Wheel | None = None
        self.turn(now_ms)

    def turn(self, now_ms: int) -> None:
        """Set the clock, rounded down to a tick."""
        begun_ms = now_ms - now_ms % self.tick_ms
        self.turns_ms = begun_ms + self.tick_ms
        self.until_ms = begun_ms + self.interval_ms


class TimingWheel:
    """All levels and the queue of their filled buckets. Times are whole milliseconds and never go back."""

    __slots__ = ("_finest", "_queue", "_size", "_time_ms")

    def __init__(self, start_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"tick_ms {tick_ms} < 1 or wheel_size {wheel_size} < 2")
        self._size = wheel_size
        self._time_ms = start_ms
        self._finest = Wheel(tick_ms, wheel_size, start_ms)
        # When, the coarser first, which. No two buckets of one wheel are due at once.
        self._queue: list[tuple[int, int, Bucket]] = []

    @property
    def now_ms(self) -> int:
        """The clock: the last time given to `advance`, rounded down to a tick."""
        return self._time_ms - self._time_ms % self._finest.tick_ms

    @property
    def size(self) -> int:
        """How many entries wait, exactly. Counted when asked: it costs the buckets, not the entries."""
        total = 0
        wheel: Wheel | None = self._finest
        while wheel is not None:
            for bucket in wheel.buckets:
                total += len(bucket.moved) + len(bucket.added)
            wheel = wheel.overflow
        return total

    def add(self, entry: TimerEntry) -> bool:
        """Let it wait; one that waits already is moved. False: it is due now, or was cancelled."""
        entries = entry.bucket
        if entries is None:
            return False
        if entries:
            entries.pop(entry, None)
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
        entries = bucket.added
        entries[entry] = None
        entry.bucket = entries
        return True

    def cancel(self, entry: TimerEntry) -> None:
        """Take it out, for good."""
        entry.cancel()

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Let time go on to `now_ms`, but stop at the first tick for which something is due, and return it.

        Call it until nothing comes: only then has the clock arrived. So what is added in between takes its
        place among what is still to come.
        """
        queue = self._queue
        due: list[TimerEntry] = []
        if not queue or queue[0][0] > now_ms:
            self._time_ms = now_ms
            return due
        tick_ms = self._finest.tick_ms
        while queue and queue[0][0] <= now_ms:
            self._time_ms = expires_ms = queue[0][0]  # the levels follow when something is added
            while queue and queue[0][0] == expires_ms:
                _, width, bucket = heappop(queue)
                bucket.queued = False
                for entries in (bucket.moved, bucket.added):
                    if entries:
                        if width == -tick_ms:
                            due.extend(entries)
                        else:
                            self._move_down(entries, due)
                        entries.clear()
            if due:
                if tick_ms > 1:
                    due.sort(key=at_ms_of)
                return due
        self._time_ms = now_ms
        return due

    def next_ms(self) -> int | None:
        """When the first bucket comes up: not later than its entries. None while nothing is queued."""
        return self._queue[0][0] if self._queue else None

    def prune(self) -> None:
        """Take emptied buckets off the queue's head, so that nobody wakes for them."""
        queue = self._queue
        while queue and not queue[0][2].added and not queue[0][2].moved:
            heappop(queue)[2].queued = False

    def _move_down(self, entries: dict[TimerEntry, None], due: list[TimerEntry]) -> None:
        """A coarse bucket has come up: each entry goes to a finer wheel, or is due."""
        finest = self._finest
        size = self._size
        if self._time_ms >= finest.turns_ms:
            self._turn()
        for entry in entries:
            at_ms = entry.at_ms
            if at_ms < finest.turns_ms:
                due.append(entry)
                continue
            wheel = finest
            while at_ms >= wheel.until_ms:
                wheel = wheel.overflow or self._grow(wheel)
            tick_ms = wheel.tick_ms
            bucket = wheel.buckets[at_ms // tick_ms % size]
            if not bucket.queued:
                bucket.queued = True
                heappush(self._queue, (at_ms - at_ms % tick_ms, -tick_ms, bucket))
            moved = bucket.moved
            moved[entry] = None
            entry.bucket = moved

    def _turn(self) -> None:
        """The clock of each level goes on if a tick of it is over."""
        now_ms = self._time_ms
        wheel: Wheel | None = self._finest
        while wheel is not None and now_ms >= wheel.turns_ms:
            wheel.turn(now_ms)
            wheel = wheel.overflow

    def _grow(self, wheel: Wheel) -> Wheel:
        wheel.overflow = Wheel(wheel.interval_ms, self._size, self._time_ms)
        return wheel.overflow


def at_ms_of(entry: TimerEntry) -> int:
    """When it is due, for sorting."""
    return entry.at_ms
