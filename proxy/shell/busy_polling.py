"""How the driver waits while traffic flows: in the event loop's own poll set.

Rules:
- A wait ends at a timer, at the next deadline of Trio's tasks, and when one of them has an event (`trio_scheduler`).
  The deadline is read at the end of the first turn after they ran, if at all: it takes time with many tasks.
- Trio's tasks run when they have something to do: at once if it is an event, otherwise, and while events of sockets
  come without a pause, after TURN_MS and a step. To be safe they also run each PASS_MS.
- Where Trio's events are not seen (`TrioScheduler.calls`) a wait is 2 ms at most, and none while clients are being
  connected, and Trio's tasks run after each turn.
- After a step with many events the next one most likely comes within a millisecond, so a wait is no longer than that.
  Then the timers need not be asked: those that are due have fired, and no other is due within a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.shell import loop_limits

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.shell.clock import Clock
    from proxy.shell.steppable import Steppable
    from proxy.shell.trio_scheduler import TrioScheduler

POLL_MS = 50
"""How long to wait in the poll set for the next event while traffic flows."""
PASS_MS = 1000
"""The longest time between two passes through Trio's scheduler. At ordinary rates each costs as much as some events."""
BLIND_POLL_MS = 2
"""POLL_MS where Trio's events are not seen."""


class BusyPolling:
    """Polls while traffic flows. It counts its polls and measures no time: the clock may be a virtual one."""

    __slots__ = (
        "_busy",
        "_calls",
        "_clock",
        "_due",
        "_engine",
        "_event_loop",
        "_idle_ms",
        "_left_ms",
        "_pass_ms",
        "_ready",
        "_scheduler",
        "_timers",
        "_turns",
        "_usage",
    )

    def __init__(
        self, event_loop: Steppable, engine: Engine, clock: Clock, scheduler: TrioScheduler
    ) -> None:
        self._event_loop = event_loop
        self._engine = engine
        self._timers, self._turns, self._usage = engine.timers, engine.turns, engine.usage
        self._due = engine.timers.due
        self._clock = clock
        self._scheduler = scheduler
        self._ready = scheduler.ready
        self._calls = False  # `scheduler.calls`
        self._idle_ms = 0  # how long to wait for an event at first
        self._left_ms = 0.0  # and still
        self._busy = 0  # polls without an event while Trio's tasks are ready
        self._pass_ms = 0.0  # when Trio's tasks must run; 0: not known until the end of the turn

    def begin(self) -> None:
        """Begin to poll, after an event."""
        self._calls = self._scheduler.calls
        self._left_ms = self._idle_ms = POLL_MS if self._calls else BLIND_POLL_MS
        self._event_loop.called = self._busy = 0
        self._pass_ms = 0.0

    def lasts(self) -> bool:
        """Return whether to poll for another turn."""
        return self._left_ms > 0 and self._busy < loop_limits.MAX_BUSY

    def turns(self) -> int:
        """Take turns until Trio's tasks must run, a step was slow, or polling is over; return the time at the end.

        It also returns while sessions wait for turns: no poll waits then, and compiled code would keep the interpreter
        lock, which other threads need.
        """
        while True:
            now_ms = self.turn()
            if (
                now_ms - self._engine.now_ms > loop_limits.SLOW_STEP_MS
                or self._turns.queue
                or self.must_pass(now_ms)
                or not self.lasts()
            ):
                return now_ms

    def turn(self) -> int:
        """Step until nothing comes, or the turn is over; return the time at its end."""
        event_loop, engine, clock, ready = self._event_loop, self._engine, self._clock, self._ready
        usage = self._usage
        now_ms = clock.now_us() // 1000
        leave_ms: float = now_ms + (1 if event_loop.arriving else loop_limits.TURN_MS)
        if self._pass_ms:
            leave_ms = min(leave_ms, self._pass_ms)
        until_ms = self._pass_ms or leave_ms
        may_block = self._calls or not event_loop.arriving
        handled = 0
        while True:
            timeout_ms: float = 0
            if may_block and not (ready or event_loop.called):
                timeout_ms = min(self._left_ms, until_ms - now_ms)
                if handled >= loop_limits.MANY_EVENTS and now_ms == engine.now_ms and not self._due:
                    timeout_ms = min(timeout_ms, 1)
                else:
                    due_ms = self._timers.next_by(now_ms + self._idle_ms)
                    if usage.keys:  # as `engine.next_ms` does
                        due_ms = min(due_ms, usage.ends_ms)
                    timeout_ms = min(timeout_ms, due_ms - now_ms)
            handled = event_loop.step(timeout_ms / 1000 if timeout_ms > 0 else 0.0)
            now_ms = clock.now_us() // 1000
            called = event_loop.called
            if handled <= called:
                if ready:
                    self._busy += 1
                else:
                    self._left_ms -= 1 if handled else max(timeout_ms, 1)
                    self._busy = 0
                return now_ms
            self._left_ms, self._busy = self._idle_ms, 0
            if now_ms >= leave_ms:
                return now_ms

    def must_pass(self, now_ms: int) -> bool:
        """Return whether Trio's tasks must run now, after a turn."""
        if self._ready or self._event_loop.called or not self._calls:
            return True
        if not self._pass_ms:
            self._pass_ms = now_ms + min(PASS_MS, self._scheduler.deadline_ms())
        return now_ms >= self._pass_ms

    def on_passed(self) -> None:
        """Note that they have run."""
        self._event_loop.called = 0
        self._pass_ms = 0.0
