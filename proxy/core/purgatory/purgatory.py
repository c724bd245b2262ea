"""Kafka's request purgatory: operations that wait for a condition until a deadline and complete exactly once.

Source: Kafka's `DelayedOperation`, `DelayedOperationPurgatory`.

Rules:
- The first of three events completes an operation: its condition, its deadline or a `force_complete`. The operation is
  taken off the timer, then `on_complete` runs. After the deadline, `on_expiration` runs as well.
- An operation is tried before it is watched and again afterwards. So no event in between is missed, and an operation
  whose condition already holds is never watched.
- A completed operation is removed from the timer and the lists of its keys at once. The lists are dicts, so removal is
  O(1), and completed operations are not kept alive.
  Kafka's lists keep them until a purge, for which it estimates their number; here is neither.
- One thread runs everything, without locks or awaits. An operation's methods may call the purgatory again: to watch
  other operations, or to check the same key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable


class TimerQueue(Protocol):
    """The part of `Timers` that the purgatory uses: an added entry fires at its `at_ms`, unless it is cancelled."""

    def add(self, entry: TimerEntry) -> None:
        """Fire `entry` when its time has come, but not before this call returns."""


class DelayedOperation(TimerEntry):
    """An operation that waits. A subclass defines when it is complete, and what it does then."""

    __slots__ = ("completed", "keys", "purgatory")

    def __init__(self) -> None:
        self.at_ms = 0
        self.bucket = NOWHERE
        self.completed = False
        self.keys: Collection[Hashable] = ()
        self.purgatory: Purgatory | None = None
        """The purgatory that counts it as delayed, if any."""

    def try_complete(self, now_ms: int) -> bool:
        """Return `force_complete(now_ms)` if the condition holds, else False. It may be called at any time."""
        raise NotImplementedError

    def on_complete(self, now_ms: int) -> None:
        """Act on completion. It is called once, whether the condition, the deadline or a call completed it."""
        raise NotImplementedError

    def on_expiration(self, now_ms: int) -> None:
        """Act on expiration. It is called after `on_complete` if the deadline completed the operation."""

    def force_complete(self, now_ms: int) -> bool:
        """Complete it, whether or not its condition holds. Return False if it was complete before."""
        if self.completed:
            return False
        self.completed = True
        self.cancel()
        self.on_complete(now_ms)
        return True

    def cancel(self) -> None:
        """Take it off the timer permanently. A caller other than `force_complete` must complete it then."""
        purgatory = self.purgatory
        if purgatory is not None:
            self.purgatory = None
            purgatory.num_delayed -= 1
            purgatory.forget(self)
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """Complete it because its deadline has passed."""
        if self.force_complete(now_ms):
            self.on_expiration(now_ms)


class Purgatory:
    """Holds the delayed operations of one kind."""

    __slots__ = ("_timers", "_watchers", "num_delayed")

    def __init__(self, timers: TimerQueue) -> None:
        self.num_delayed = 0
        """The exact number of operations on the timer: Kafka's NumDelayedOperations."""
        self._timers = timers
        # Dicts keep the order and remove in O(1); only the number of their entries is read, not the values.
        self._watchers: dict[Hashable, dict[DelayedOperation, int]] = {}

    @property
    def watched(self) -> int:
        """The number of entries in all lists, computed on each call: Kafka's PurgatorySize."""
        return sum(map(len, self._watchers.values()))

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], at_ms: int, now_ms: int
    ) -> bool:
        """Return whether the operation is complete; if not, it waits under these keys until `at_ms` at the latest.

        An operation that completes or is cancelled between the two tries is never put on the timer.
        `keys` is kept, and must not change.

        Raises:
            ValueError: `keys` is empty.
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
            self.forget(operation)
            return complete
        operation.at_ms = at_ms
        operation.purgatory = self
        self.num_delayed += 1
        self._timers.add(operation)
        # Kafka tries once more here, because another thread may have completed it; Sluice has only one thread.
        return False

    def check_and_complete(self, key: Hashable, now_ms: int) -> int:
        """Try the operations watched under `key` after an event. Return how many completed."""
        watching = self._watchers.get(key)
        if watching is None:
            return 0
        count = 0
        # A tried operation may change the list; operations added meanwhile have already been tried.
        for operation in tuple(watching):
            if not operation.completed and operation.try_complete(now_ms):
                count += 1
        return count

    def forget(self, operation: DelayedOperation) -> None:
        """Remove the operation from the lists of its keys."""
        watchers = self._watchers
        for key in operation.keys:
            watching = watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
                if not watching:
                    del watchers[key]
