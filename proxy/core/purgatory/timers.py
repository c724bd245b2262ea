"""What is due later, on the engine's own clock: calls, and entries of one's own, on the timing wheel.

Earlier ones first, equal times in the order they were set, none early. What is set for a time that has passed
waits for the next `advance` (or the rest of this one), in the same order.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Final

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry, TimingWheel, at_ms_of

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(TimerEntry):
    """One call at `at_ms`. `cancel` takes it off the wheel and drops what it holds at once."""

    __slots__ = ("call",)

    def __init__(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.at_ms = at_ms
        self.bucket = NOWHERE
        self.call: Callable[[int], None] | None = call

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, or has been called."""
        return self.call is None

    def cancel(self) -> None:
        """It will not be called."""
        self.call = None
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """Call it, once."""
        call, self.call = self.call, None
        if call is not None:
            call(now_ms)


_new_timer = Timer.__new__
_DUE: Final[dict[TimerEntry, None]] = {}
"""What an entry lies in that was added when it was due already: empty, always."""
MAX_FIRED = 256
"""Calls in one `advance`, so that a thousand deadlines at once do not hold up who has none."""


class Timers:
    """All timers of a process. Times are milliseconds and never go back.

    `on_error` hears of each entry whose call has raised; the others fire as ever. Without it the
    exception leaves `advance`, and what is due fires the next time.
    """

    __slots__ = ("_now_ms", "_on_error", "_wheel", "due")

    def __init__(
        self, start_ms: int = 0, on_error: Callable[[TimerEntry, Exception], None] | None = None
    ) -> None:
        self._now_ms = start_ms
        self._on_error = on_error
        self._wheel = TimingWheel(start_ms)
        # Come up but not yet fired: set for a time already past, or left behind by a call that failed.
        self.due: deque[TimerEntry] = deque()

    @property
    def size(self) -> int:
        """How many wait. Counted when asked."""
        return self._wheel.size + sum(not entry.cancelled for entry in self.due)

    def arm(self, at_ms: int, call: Callable[[int], None]) -> Timer:
        """Call `call(now_ms)` once `at_ms` has come."""
        timer = _new_timer(Timer)  # as Timer(at_ms, call), at three quarters of its cost
        timer.at_ms = at_ms
        timer.bucket = NOWHERE
        timer.call = call
        if not self._wheel.add(timer):
            insort(self.due, timer, key=at_ms_of)
        return timer

    def add(self, entry: TimerEntry) -> None:
        """Fire `entry` once its `at_ms` has come. It may be added again when it fires, or moved while it waits.

        One that was cancelled never fires.
        """
        if not self._wheel.add(entry) and entry.bucket is not None:
            if entry.bucket is not NOWHERE and entry in self.due:  # its neighbour moves it
                self.due.remove(entry)
            entry.bucket = _DUE
            insort(self.due, entry, key=at_ms_of)

    def advance(self, now_ms: int) -> None:
        """Fire what is due, MAX_FIRED at most, the rest the next time.

        A call may arm new timers; those due now fire too.
        """
        due = self.due
        if now_ms <= self._now_ms and not due:
            return
        wheel = self._wheel
        left = MAX_FIRED
        while True:
            while due:
                if not left:
                    return  # `next_ms` says that the rest is due
                left -= 1
                entry = due.popleft()
                bucket = entry.bucket
                if bucket is not None and entry not in bucket:  # else cancelled, or moved
                    try:
                        entry.fire(now_ms)
                    except Exception as error:
                        if self._on_error is None:
                            raise
                        self._on_error(entry, error)
            come = wheel.advance(now_ms)
            if not come:
                self._now_ms = now_ms
                return
            due.extend(come)

    def next_ms(self) -> int | None:
        """When to `advance` next; None when nothing is waiting.

        For what is distant this is earlier than its time: its bucket comes up and it moves down.
        """
        due = self.due
        while due and due[0].cancelled:
            due.popleft()
        if due:
            return due[0].at_ms
        self._wheel.prune()
        return self._wheel.next_ms()
