"""The Trio task that steps the event loop.

Rules:
- While traffic flows the task waits in the event loop's own poll set, at most a few milliseconds at a time, and
  lets Trio's other tasks run in between: a pass through Trio's scheduler per event would cost more than
  the event itself.
- While clients are being connected it does not wait there: Trio connects them, in several passes.
- When no event has come for two milliseconds it waits in Trio, without CPU time, until a socket is ready, a timer is
  due, or another task changes the timers (`nudge`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from proxy.core.stats.histogram import bucket_of

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.shell.clock import Clock
    from proxy.shell.event_loop import EventLoop

STAY_S = 0.002
"""How long to wait in the poll set for the next event while traffic flows."""
TURN_MS = 4
"""How long to step before Trio's other tasks get their turn."""
SLOW_STEP_MS = 5
"""A step that took longer is reported. At least TURN_MS."""


async def drive(event_loop: EventLoop, engine: Engine, clock: Clock) -> None:
    """Step the event loop until cancelled."""
    step = event_loop.step
    away_us = engine.meters.away_us
    while True:
        if step(0):
            stay_s, turn_ms = (0.0, 1) if event_loop.arriving else (STAY_S, TURN_MS)
            now_ms = clock()
            leave_ms = now_ms + turn_ms
            if now_ms - engine.now_ms <= SLOW_STEP_MS:
                while step(stay_s) and (now_ms := clock()) < leave_ms:
                    pass
            # A slow step always ends the turn, so one look after the turn is enough.
            if now_ms - engine.now_ms > SLOW_STEP_MS:
                engine.on_slow_step(now_ms - engine.now_ms)
            left_us = clock.now_us()
            await trio.lowlevel.checkpoint()
            away_us[bucket_of(clock.now_us() - left_us)] += 1
            continue
        due_ms = engine.next_ms()
        sleep_s = math.inf if due_ms is None else max(0, due_ms - clock()) / 1000
        with trio.move_on_after(sleep_s) as event_loop.asleep:
            await trio.lowlevel.wait_readable(event_loop.fileno())


def nudge(event_loop: EventLoop) -> None:
    """Settle what another task has changed, and wake the driver to read its timers again."""
    event_loop.attend()
    if event_loop.asleep is not None:
        event_loop.asleep.cancel()
