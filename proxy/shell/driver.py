"""The Trio task that steps the event loop.

Rules:
- While traffic flows the task waits in the event loop's own poll set: a pass through Trio's scheduler would cost more
  than the event itself. The wait ends at a timer, at the next deadline of Trio's tasks, and when one of them has an
  event (`trio_scheduler`). The deadline is read at the end of the first turn after they ran, if at all: it takes time
  with many tasks.
- Trio's tasks run when they have something to do: at once if it is an event, otherwise, and while events of sockets
  come without a pause, after TURN_MS and a step. To be safe they also run each PASS_MS.
- When no event has come for STAY_MS, or Trio's tasks are busy, it waits in Trio, without CPU time, until a socket is
  ready, a timer is due, or another task changes the timers (`nudge`).
- Where Trio's events are not seen (`TrioScheduler.calls`) it waits in the poll set for 2 ms at most, not at all while
  clients are being connected, and Trio's tasks run after each turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from proxy.core.stats.histogram import bucket_of
from proxy.shell.trio_scheduler import TrioScheduler

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.shell.clock import Clock
    from proxy.shell.event_loop import EventLoop

STAY_MS = 50
"""How long to wait in the poll set for the next event while traffic flows."""
PASS_MS = 1000
"""The longest time between two passes through Trio's scheduler. At ordinary rates each costs as much as some events."""
BLIND_STAY_MS = 2
"""STAY_MS where Trio's events are not seen."""
MAX_BUSY = 3
"""Polls without an event while Trio's tasks are ready. Then waiting in Trio is cheaper than a pass for each task."""
TURN_MS = 4
"""How long to step before Trio's other tasks get their turn, if they have something to do."""
SLOW_STEP_MS = 5
"""A step that took longer is reported. At least TURN_MS."""


async def drive(event_loop: EventLoop, engine: Engine, clock: Clock) -> None:
    """Step the event loop until cancelled."""
    scheduler = TrioScheduler(event_loop)
    await scheduler.open()
    try:
        await Driver(event_loop, engine, clock, scheduler).run()
    finally:
        scheduler.close()


def nudge(event_loop: EventLoop) -> None:
    """Settle what another task has changed, and wake the driver to read its timers again."""
    event_loop.attend()
    if event_loop.asleep is not None:
        event_loop.asleep.cancel()


class Driver:
    """Steps the event loop; one task runs it."""

    def __init__(
        self, event_loop: EventLoop, engine: Engine, clock: Clock, scheduler: TrioScheduler
    ) -> None:
        self._event_loop = event_loop
        self._engine = engine
        self._clock = clock
        self._scheduler = scheduler

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            if self._event_loop.step(0):
                self._report_slow_step(self._clock())
                if self._scheduler.ready:
                    await self._share()
                else:
                    self._scheduler.enter()
                    await self._follow_traffic()
                    self._scheduler.leave()
            else:
                await self._sleep()

    async def _share(self) -> None:
        """Step while events come, for a turn at most, then let Trio's tasks run, which are busy."""
        step, clock = self._event_loop.step, self._clock
        now_ms = clock()
        leave_ms = now_ms + (1 if self._event_loop.arriving else TURN_MS)
        while step(0) and (now_ms := clock()) < leave_ms:
            pass
        self._report_slow_step(now_ms)
        await self._pass()

    async def _follow_traffic(self) -> None:
        """Step until no event has come for STAY_MS. Polls are counted, not the clock: it may be a virtual one."""
        event_loop, scheduler, clock = self._event_loop, self._scheduler, self._clock
        step, next_ms, ready = event_loop.step, self._engine.next_ms, scheduler.ready
        quiet_ms = STAY_MS if scheduler.calls else BLIND_STAY_MS
        left_ms: float = quiet_ms
        pass_ms: float = 0  # when Trio's tasks must run; 0: not known until the end of the turn
        event_loop.called = busy = 0
        while left_ms > 0 and busy < MAX_BUSY:
            now_ms = clock()
            leave_ms: float = now_ms + (1 if event_loop.arriving else TURN_MS)
            if pass_ms:
                leave_ms = min(leave_ms, pass_ms)
            may_stay = scheduler.calls or not event_loop.arriving
            while True:
                stay_ms: float = 0
                if may_stay and not (ready or event_loop.called):
                    stay_ms = min(left_ms, (pass_ms or leave_ms) - now_ms)
                    due_ms = next_ms()
                    if due_ms is not None and due_ms - now_ms < stay_ms:
                        stay_ms = due_ms - now_ms
                handled = step(stay_ms / 1000 if stay_ms > 0 else 0.0)
                now_ms = clock()
                if handled <= event_loop.called:
                    if ready:
                        busy += 1
                    else:
                        left_ms -= 1 if handled else max(stay_ms, 1)
                        busy = 0
                    break
                left_ms, busy = quiet_ms, 0
                if now_ms >= leave_ms:
                    break
            # A slow step always ends the turn, so one look after the turn is enough.
            self._report_slow_step(now_ms)
            if ready or event_loop.called or not scheduler.calls:
                pass_ms = now_ms
            elif not pass_ms:
                pass_ms = now_ms + min(PASS_MS, scheduler.deadline_ms())
            if now_ms >= pass_ms:
                await self._pass()
                event_loop.called, pass_ms = 0, 0

    async def _pass(self) -> None:
        """Let Trio's tasks run."""
        left_us = self._clock.now_us()
        await trio.lowlevel.checkpoint()
        self._engine.meters.away_us[bucket_of(self._clock.now_us() - left_us)] += 1

    async def _sleep(self) -> None:
        """Wait in Trio until a socket is ready or a timer is due."""
        due_ms = self._engine.next_ms()
        sleep_s = math.inf if due_ms is None else max(0, due_ms - self._clock()) / 1000
        with trio.move_on_after(sleep_s) as self._event_loop.asleep:
            await self._scheduler.wait()

    def _report_slow_step(self, now_ms: int) -> None:
        """Tell the engine if the last step took too long; `engine.now_ms` is when it began."""
        if now_ms - self._engine.now_ms > SLOW_STEP_MS:
            self._engine.on_slow_step(now_ms - self._engine.now_ms)
