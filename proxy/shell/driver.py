"""The Trio task that steps the event loop.

Rules:
- While traffic flows the task waits in the event loop's own poll set (`busy_polling`): a pass through Trio's scheduler
  would cost more than the event itself.
- When no event has come for POLL_MS, or Trio's tasks are busy, it waits in Trio, without CPU time, until a socket is
  ready, a timer is due, or another task changes the timers (`nudge`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from proxy.core.stats.histogram import bucket_of
from proxy.shell.busy_polling import BusyPolling
from proxy.shell.loop_limits import SLOW_STEP_MS, TURN_MS
from proxy.shell.trio_scheduler import TrioScheduler

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.shell.clock import Clock
    from proxy.shell.event_loop import EventLoop


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
    event_loop.serve_ready()
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
        self._polling = BusyPolling(event_loop, engine, clock, scheduler)

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
        """Step until no event has come for POLL_MS."""
        polling = self._polling
        polling.begin()
        while polling.lasts():
            now_ms = polling.turns()
            # A slow step always ends the turns, so one look after them is enough.
            self._report_slow_step(now_ms)
            if polling.must_pass(now_ms):
                await self._pass()
                polling.on_passed()

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
        self._event_loop.asleep = None

    def _report_slow_step(self, now_ms: int) -> None:
        """Tell the engine if the last step took too long; `engine.now_ms` is when it began."""
        if now_ms - self._engine.now_ms > SLOW_STEP_MS:
            self._engine.on_slow_step(now_ms - self._engine.now_ms)
