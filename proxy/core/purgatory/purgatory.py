"""Kafka's request purgatory: operations that wait for a condition, for so long, and complete exactly once.

Source: Kafka's `DelayedOperation`, `DelayedOperationPurgatory`.

Rules:
- Whoever completes an operation first wins: its condition, its deadline or anyone's `force_complete`. Winning takes
  it off the timer, then `on_complete` runs. `on_expiration` runs after that, and only when the deadline won.
- It is tried before it is watched and again after, so what happens in between is not missed, and what is already
  true costs no watching.
- A completed operation leaves the timer and the lists of its keys at once: the lists are dicts, so that costs
  nothing for those who wait, and nothing keeps what has ended.
- Kafka's lists keep completed operations until a purge, which comes when there may be more than `purge_interval`.
  Its estimate is kept as a figure: one that was watched counts once until the next purge begins.
- One thread, no lock, nothing awaited. What an operation does when it is tried or completes may come back here:
  watch others, check the same key, purge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable


class TimerQueue(Protocol):
    """What the purgatory needs of `Timers`: an entry added fires at its `at_ms`, unless it is cancelled."""

    def add(self, entry: TimerEntry) -> None:
        """Fire `entry` once its time has come; not before this returns."""


class DelayedOperation(TimerEntry):
    """What waits. A subclass says when it is complete, and what happens then."""

    __slots__ = ("completed", "keys", "purgatory")

    def __init__(self) -> None:
        self.at_ms = 0
        self.bucket = NOWHERE
        self.completed = False
        self.keys: Collection[Hashable] = ()
        self.purgatory: Purgatory | None = None
        """Where it is counted as delayed."""

    def try_complete(self, now_ms: int) -> bool:
        """If its condition holds, return `force_complete(now_ms)`; else False. It may be asked at any time."""
        raise NotImplementedError

    def on_complete(self, now_ms: int) -> None:
        """It is complete: called once, whatever the reason."""
        raise NotImplementedError

    def on_expiration(self, now_ms: int) -> None:
        """It was its deadline that completed it."""

    def force_complete(self, now_ms: int) -> bool:
        """Complete it, whether or not its condition holds. False: somebody has, before."""
        if self.completed:
            return False
        self.completed = True
        self.cancel()
        self.on_complete(now_ms)
        return True

    def cancel(self) -> None:
        """Take it off the timer, for good. Who does that by itself must complete it."""
        purgatory = self.purgatory
        if purgatory is not None:
            self.purgatory = None
            purgatory.num_delayed -= 1
            purgatory.finished += 1
            purgatory.forget(self)
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """Its deadline has come."""
        if self.force_complete(now_ms):
            self.on_expiration(now_ms)


class Purgatory:
    """The operations of one kind. `name` is Kafka's tag `delayedOperation`."""

    __slots__ = ("_timers", "_watchers", "finished", "name", "num_delayed", "purge_interval")

    def __init__(self, name: str, timers: TimerQueue, purge_interval: int = 1000) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self.num_delayed = 0
        """Operations on the timer, exactly: Kafka's NumDelayedOperations."""
        self.finished = 0
        """Operations that were watched and have ended since the last purge began."""
        self._timers = timers
        # Dicts, for their order and for taking out at O(1); the values only count.
        self._watchers: dict[Hashable, dict[DelayedOperation, int]] = {}

    @property
    def estimated_total(self) -> int:
        """Operations on the timer, or ended since the last purge: Kafka's estimate of what is in its lists."""
        return self.num_delayed + self.finished

    @property
    def watched(self) -> int:
        """Entries in all lists: Kafka's PurgatorySize. Counted when asked."""
        return sum(map(len, self._watchers.values()))

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], at_ms: int, now_ms: int
    ) -> bool:
        """Whether it is complete; if not it waits, watched by these keys, until `at_ms` at most.

        One that completes between the two tries is never on the timer, nor is one that was cancelled by then.
        `keys` is kept, and must not change.

        Raises:
            ValueError: no key.
        """
        if not keys:
            raise ValueError("an operation must be watched by at least one key")
        if operation.try_complete(now_ms):
            return True
        operation.keys = keys
        watchers = self._watchers
        for key in keys:
            if operation.completed:
                break
            watching = watchers.get(key)
            if watching is None:
                watchers[key] = {operation: 1}
            else:
                watching[operation] = 1
        complete = operation.try_complete(now_ms)
        if complete or operation.completed or operation.bucket is None:
            self.finished += 1
            self.forget(operation)
            return complete
        operation.at_ms = at_ms
        operation.purgatory = self
        self.num_delayed += 1
        self._timers.add(operation)
        # Kafka looks once more here, for another thread may have completed it; nothing runs meanwhile in ours.
        return False

    def check_and_complete(self, key: Hashable, now_ms: int) -> int:
        """Something happened to `key`: try what it watches. How many this completed."""
        watching = self._watchers.get(key)
        if watching is None:
            return 0
        count = 0
        # What is tried may change the list; what comes to it meanwhile has been tried by itself.
        for operation in tuple(watching):
            if not operation.completed and operation.try_complete(now_ms):
                count += 1
        return count

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Take what this key watches off the timer, and forget the key. They are not completed: the caller must."""
        operations = list(self._watchers.pop(key, ()))
        for operation in operations:
            operation.cancel()
        return operations

    def forget(self, operation: DelayedOperation) -> None:
        """Take it out of the lists of its keys."""
        watchers = self._watchers
        for key in operation.keys:
            watching = watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
                if not watching:
                    del watchers[key]

    def maybe_purge(self) -> int | None:
        """Begin the estimate again if Kafka would purge; how many have ended since. None: it would not."""
        if self.finished <= self.purge_interval:
            return None
        return self.purge()

    def purge(self) -> int:
        """Begin the estimate again; how many have ended since the last time. There is nothing to take out."""
        finished, self.finished = self.finished, 0
        return finished
