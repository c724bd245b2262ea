"""How late the event loop is: a task sleeps for a tenth of a second and measures the excess.

Rules:
- Every other task waits as long, the driver included. Between events without a pause the driver yields to Trio after
  a few milliseconds, so a lag of a few milliseconds is usual under load.
- Percentiles are of the last ten seconds. The first second is left out: it measures the start of the process.
- CPU time is a difference, so it is measured here, once a second.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S = 0.1
MEASUREMENTS = 100
START_S = 1.0
CPU_EVERY = 10
"""Measurements between two readings of the CPU time."""


class LoopLag:
    """The lag and the CPU share of the process. Run `beat` in a task."""

    def __init__(self, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._cpu_s = cpu_s
        self._late_ms: deque[float] = deque(maxlen=MEASUREMENTS)
        self.cpu_percent = 0.0
        """Of one core, in the last second."""

    async def beat(self) -> None:
        """Measure until cancelled."""
        await trio.sleep(START_S)
        cpu_s, at = self._cpu_s(), trio.current_time()
        while True:
            for _ in range(CPU_EVERY):
                due = trio.current_time() + EVERY_S
                await trio.sleep_until(due)
                self._late_ms.append((trio.current_time() - due) * 1000)
            used_s, now = self._cpu_s(), trio.current_time()
            self.cpu_percent = round(100 * (used_s - cpu_s) / (now - at), 2)
            cpu_s, at = used_s, now

    def quantiles_ms(self) -> tuple[float, float] | None:
        """Return the median and the 99th percentile; None before the first measurement."""
        late = sorted(self._late_ms)
        if not late:
            return None
        return round(late[len(late) // 2], 3), round(late[len(late) * 99 // 100], 3)

    def p99_ms(self) -> float:
        """Return the 99th percentile for the history; 0 before the first measurement."""
        found = self.quantiles_ms()
        return found[1] if found else 0.0
