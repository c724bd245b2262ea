"""How fast a request with reserved memory must arrive, and which slow clients are closed in favour of others.

Rules (`proxy.core.memory.claim` defines when they apply):
- While clients wait for memory, requests of a (user, address) over its share must arrive at the minimum rate already
  after HASTY_MS. If clients of another pair wait, the sessions of requests that are incomplete after START_MS are
  ended, the slowest first, until the pair is within its share.
"""

from __future__ import annotations

from dataclasses import dataclass

START_MS = 5_000
"""No client is judged slow earlier."""
HASTY_MS = 1_000
"""The same for a client of a pair that is over its share while other clients wait."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The time for a whole frame, and the minimum average rate at which it must arrive; 0: no limit."""

    timeout_ms: int = 30_000
    bytes_per_second: int = 1024

    def due_ms(self, begun_ms: int, received_bytes: int) -> int | None:
        """Return when a frame that began at `begun_ms` may next be too slow, in ms; None: never."""
        due = []
        if self.bytes_per_second:
            enough_ms = received_bytes * 1000 // self.bytes_per_second + 1
            due.append(begun_ms + max(enough_ms, START_MS))
        if self.timeout_ms:
            due.append(begun_ms + self.timeout_ms)
        return min(due, default=None)
