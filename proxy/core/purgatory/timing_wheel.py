"""Kafka's hierarchical timing wheel: adds and removes timer entries in O(1).

Source: Kafka's `TimingWheel`, `TimerTaskList`, `SystemTimer`.

Rules:
- The finest wheel has buckets of one tick; each overflow wheel, created on demand, has buckets as wide as the whole
  wheel below it. Buckets begin at multiples of their width, not relative to the start.
- An entry is put into the finest wheel that reaches its time, in the bucket that begins at or before it. The bucket of
  the current tick is never used: an entry that belongs there is due now, and `add` refuses it.
- Only filled buckets are in the queue, once per turn of their wheel. The queue drives the clock, so empty stretches of
  time cost no work. A bucket whose entries were all cancelled still becomes due.
- When a coarse bucket is due, its entries move down; when a finest bucket is due, so are its entries. With a tick of
  1 ms no entry fires early; with a wider tick an entry may fire less than one tick early, never late.
- Entries due in the same millisecond fire in the order in which they were added. (Kafka guarantees no order.) Of two
  such entries, the older was never put into a finer wheel than the newer. So each bucket has two dicts: entries that
  moved down come before those added directly. Of buckets due at the same time, the coarser comes first.

A bucket's dicts keep the order, and add and remove in C: this takes a tenth less CPU per request than Kafka's doubly
linked list in Python. bench/purgatory measures both.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

NEVER_MS: Final = 1 << 60
"""A time in milliseconds that is never reached, and a wait longer than any other."""
NOWHERE: Final[dict[TimerEntry, None]] = {}
"""The bucket of entries that were never added. It always stays empty."""
_NONE_DUE: Final[list[TimerEntry]] = []
"""What `advance` returns when no bucket is due. It always stays empty."""


class TimerEntry:
    """The base class of entries that fire at `at_ms`, which may change only before the entry is added (again)."""

    __slots__ = ("at_ms", "bucket")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.bucket: dict[TimerEntry, None] | None = NOWHERE
        """The bucket it is in, or was in when it became due; NOWHERE once it fires, None when it was cancelled."""

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.bucket is None

    def cancel(self) -> None:
        """Cancel it permanently, whether it is in a bucket, moving, due, or not added at all."""
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """Act when the entry is due; subclasses define how."""
        raise NotImplementedError


class Bucket:
    """The entries of one interval of time.

    It stays `queued` until that time, so it cannot be used for another turn of its wheel meanwhile.
    """

    __slots__ = ("added", "moved", "queued")

    def __init__(self) -> None:
        self.queued = False
        self.moved: dict[TimerEntry, None] = {}
        self.added: dict[TimerEntry, None] = {}


class Wheel:
    """One level: `size` buckets of `tick_ms` each, for times from `turns_ms` to just before `until_ms`."""

    __slots__ = ("buckets", "interval_ms", "overflow", "tick_ms", "turns_ms", "until_ms")

    def __init__(self, tick_ms: int, size: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * size
        self.buckets = [Bucket() for _ in range(size)]
        self.overflow: Wheel | None = None
        self.turn(now_ms)

    def turn(self, now_ms: int) -> None:
        """Set the clock of this level to `now_ms`, rounded down to a tick."""
        begun_ms = now_ms - now_ms % self.tick_ms
        self.turns_ms = begun_ms + self.tick_ms
        self.until_ms = begun_ms + self.interval_ms


class TimingWheel:
    """All levels and the queue of their filled buckets. Times are whole milliseconds and never decrease.

    `soonest_ms` is when the first bucket of the queue is due, NEVER_MS without one. Nearly always nothing is due, and
    one comparison of integers says so.

    Raises ValueError when `tick_ms` is less than 1 or `wheel_size` is less than 2.
    """

    __slots__ = ("_finest", "_queue", "_size", "_time_ms", "soonest_ms")

    def __init__(self, start_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"tick_ms {tick_ms} < 1 or wheel_size {wheel_size} < 2")
        self._size = wheel_size
        self._time_ms = start_ms
        self._finest = Wheel(tick_ms, wheel_size, start_ms)
        # Due time, negative width (coarser first), bucket. No two buckets of one wheel are due at the same time.
        self._queue: list[tuple[int, int, Bucket]] = []
        self.soonest_ms = NEVER_MS

    @property
    def now_ms(self) -> int:
        """The clock: the last time given to `advance`, rounded down to a tick."""
        return self._time_ms - self._time_ms % self._finest.tick_ms

    @property
    def size(self) -> int:
        """The exact number of waiting entries. Each call visits all buckets, but not the entries."""
        total = 0
        wheel: Wheel | None = self._finest
        while wheel is not None:
            for bucket in wheel.buckets:
                total += len(bucket.moved) + len(bucket.added)
            wheel = wheel.overflow
        return total

    def add(self, entry: TimerEntry) -> bool:
        """Add an entry, or move one that already waits. Return False if it is due now or was cancelled."""
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
            due_ms = at_ms - at_ms % tick_ms
            heappush(self._queue, (due_ms, -tick_ms, bucket))
            self.soonest_ms = min(self.soonest_ms, due_ms)
        entries = bucket.added
        entries[entry] = None
        entry.bucket = entries
        return True

    def cancel(self, entry: TimerEntry) -> None:
        """Cancel the entry permanently."""
        entry.cancel()

    def try_skip_to(self, now_ms: int) -> bool:
        """Advance the clock to `now_ms` if no bucket is due by then; return whether none is."""
        if now_ms >= self.soonest_ms:
            return False
        self._time_ms = now_ms
        return True

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Advance the clock to `now_ms`, but stop at the first tick with due entries, and return these.

        Call it until the list is empty: only then has the clock reached `now_ms`. So entries added between
        the calls are fired in their order of time.
        """
        if self.try_skip_to(now_ms):
            return _NONE_DUE
        queue = self._queue
        due: list[TimerEntry] = []
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
                break
        else:
            self._time_ms = now_ms
        self._find_soonest()
        return due

    def next_ms(self) -> int | None:
        """Return when the first bucket is due, in ms, which is no later than its entries; None: none is queued."""
        return self._queue[0][0] if self._queue else None

    def next_by(self, until_ms: int) -> int:
        """Return when the first bucket that has entries is due, in ms, at most `until_ms`. It removes empty ones."""
        queue = self._queue
        while self.soonest_ms < until_ms:
            bucket = queue[0][2]
            if bucket.added or bucket.moved:
                return self.soonest_ms
            heappop(queue)
            bucket.queued = False
            self._find_soonest()
        return until_ms

    def prune(self) -> None:
        """Remove empty buckets from the head of the queue, so that the event loop does not wake for them."""
        queue = self._queue
        while queue and not queue[0][2].added and not queue[0][2].moved:
            heappop(queue)[2].queued = False
        self._find_soonest()

    def _find_soonest(self) -> None:
        self.soonest_ms = self._queue[0][0] if self._queue else NEVER_MS

    def _move_down(self, entries: dict[TimerEntry, None], due: list[TimerEntry]) -> None:
        """Move each entry of a due coarse bucket to a finer wheel, or add it to `due`."""
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
        """Set the clock of each level whose current tick is over."""
        now_ms = self._time_ms
        wheel: Wheel | None = self._finest
        while wheel is not None and now_ms >= wheel.turns_ms:
            wheel.turn(now_ms)
            wheel = wheel.overflow

    def _grow(self, wheel: Wheel) -> Wheel:
        wheel.overflow = Wheel(wheel.interval_ms, self._size, self._time_ms)
        return wheel.overflow


def at_ms_of(entry: TimerEntry) -> int:
    """Return when the entry is due, in ms, as a sort key."""
    return entry.at_ms
