"""Timers on the engine's clock: calls, and entries of other classes, on the timing wheel.

Timers fire in order of time, those of equal time in the order in which they were armed, and never early. A timer
armed for a time in the past fires in the next `advance` (or the rest of the current one), in the same order.
"""

from __future__ import annotations

from bisect import insort_left
from typing import TYPE_CHECKING, Final

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(TimerEntry):
    """One call at `at_ms`. `cancel` takes it off the wheel and drops the reference to its callable at once."""

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
        """Prevent the call, and take the timer off the wheel."""
        self.call = None
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            bucket.pop(self, None)

    def fire(self, now_ms: int) -> None:
        """Run the call with `now_ms`, unless it ran before or was cancelled."""
        call, self.call = self.call, None
        if call is not None:
            call(now_ms)


_new_timer = Timer.__new__
_DUE: Final[dict[TimerEntry, None]] = {}
"""The bucket of entries that were already due when they were added. It always stays empty."""
MAX_FIRED = 256
"""The most calls in one `advance`, so that many simultaneous deadlines do not delay other sessions."""


class Timers:
    """All timers of a process. Times are milliseconds and never decrease.

    `on_error` is called for each entry that raised; the other entries fire as usual. Without it, `advance`
    raises the exception, and the other due entries fire in the next call.
    """

    __slots__ = ("_now_ms", "_on_error", "_wheel", "due")

    def __init__(
        self, start_ms: int = 0, on_error: Callable[[TimerEntry, Exception], None] | None = None
    ) -> None:
        self._now_ms = start_ms
        self._on_error = on_error
        self._wheel = TimingWheel(start_ms)
        # Due but not fired: armed for a time in the past, over MAX_FIRED, or left when a call raised. The next is the
        # last of the list.
        self.due: list[TimerEntry] = []

    @property
    def size(self) -> int:
        """The number of timers that wait, computed on each call."""
        return self._wheel.size + sum(not entry.cancelled for entry in self.due)

    def arm(self, at_ms: int, call: Callable[[int], None]) -> Timer:
        """Return a timer that runs `call(now_ms)` when `at_ms` has come."""
        timer = _new_timer(Timer)  # as Timer(at_ms, call), at three quarters of its cost
        timer.at_ms = at_ms
        timer.bucket = NOWHERE
        timer.call = call
        if not self._wheel.add(timer):
            timer.bucket = _DUE
            insort_left(self.due, timer, key=_latest_first)
        return timer

    def add(self, entry: TimerEntry) -> None:
        """Fire `entry` when its `at_ms` has come. It may be added again when it fires, or while it waits to move it.

        A cancelled entry never fires.
        """
        bucket = entry.bucket
        if bucket is None:
            return
        if bucket is not NOWHERE and entry not in bucket:
            self.remove(entry)
        if not self._wheel.add(entry):
            entry.bucket = _DUE
            insort_left(self.due, entry, key=_latest_first)

    def remove(self, entry: TimerEntry) -> None:
        """Take an entry off that waits, or is due; unlike a cancelled one it may be added again.

        A due one that stayed in `due` with another time would misplace others.
        """
        bucket = entry.bucket
        if bucket is None or bucket is NOWHERE:
            return
        if entry in bucket:
            del bucket[entry]
        else:
            self.due.remove(entry)
        entry.bucket = NOWHERE

    def advance(self, now_ms: int) -> None:
        """Fire the timers that are due, at most MAX_FIRED; the others fire in the next call.

        A call may arm new timers; those that are already due fire too.
        """
        due, wheel = self.due, self._wheel
        if not due:
            if now_ms <= self._now_ms:
                return
            if wheel.try_skip_to(now_ms):  # nearly always
                self._now_ms = now_ms
                return
        left = MAX_FIRED
        while True:
            while due:
                if not left:
                    return  # `next_ms` says that the rest is due
                left -= 1
                entry = due.pop()
                if entry.bucket is not None:  # else cancelled
                    entry.bucket = NOWHERE
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
            come.reverse()
            due.extend(come)

    def next_by(self, until_ms: int) -> int:
        """Return when to `advance` next, in ms, at most `until_ms`. As `next_ms`, for a wait that ends then anyway."""
        due = self.due
        while due:
            if not due[-1].cancelled:
                return min(until_ms, due[-1].at_ms)
            due.pop()
        return self._wheel.next_by(until_ms)

    def next_ms(self) -> int | None:
        """Return when to `advance` next, in ms; None when no timer waits.

        For a distant timer this is earlier than its time: its bucket is due first, and it moves to a finer wheel.
        """
        due = self.due
        while due and due[-1].cancelled:
            due.pop()
        if due:
            return due[-1].at_ms
        self._wheel.prune()
        return self._wheel.next_ms()


def _latest_first(entry: TimerEntry) -> int:
    return -entry.at_ms
