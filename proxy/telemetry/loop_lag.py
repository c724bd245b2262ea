"""How late the event loop is: a task that sleeps for a tenth of a second, and looks how long it slept.

Rules:
- What it measures is what any other task waits, the event loop's included: the driver gives Trio its turn every few
  milliseconds, so under load a few are usual.
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
KEPT = 100
START_S = 1.0
CPU_EVERY = 10
"""Beats."""


class LoopLag:
    """See the module. Run `beat` in a task."""

    def __init__(self, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._cpu_s = cpu_s
        self._late_ms: deque[float] = deque(maxlen=KEPT)
        self.cpu_percent = 0.0
        """Of one core, in the last second."""

    async def beat(self) -> None:
        """For ever."""
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
        """The median and the 99th percentile; None before the first beat."""
        late = sorted(self._late_ms)
        if not late:
            return None
        return round(late[len(late) // 2], 3), round(late[len(late) * 99 // 100], 3)

    def p99_ms(self) -> float:
        """For the history: 0 before the first beat."""
        found = self.quantiles_ms()
        return found[1] if found else 0.0
