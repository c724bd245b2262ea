"""How fast a request must come that holds memory before it is here, and which clients are given up for others.

Rules (`proxy.core.memory.claim` says when they are applied):
- While clients wait for memory, a request of a pair that has more than its share of it must come sooner: at the least
  rate from HASTY_MS on. If clients of another pair wait, requests that are not here after START_MS are given up, the
  slowest first, until the pair is within its share.
"""

from __future__ import annotations

from dataclasses import dataclass

START_MS = 5_000
"""No client is called slow earlier."""
HASTY_MS = 1_000
"""But one that has more than its share while others wait."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """`timeout_ms`: for the whole frame. `bytes_per_second`: on average so far. 0: without."""

    timeout_ms: int = 30_000
    bytes_per_second: int = 1024

    def due_ms(self, begun_ms: int, received_bytes: int) -> int | None:
        """Return when a frame that began then may have to be judged, as far as it has come; None: never."""
        due = []
        if self.bytes_per_second:
            enough_ms = received_bytes * 1000 // self.bytes_per_second + 1
            due.append(begun_ms + max(enough_ms, START_MS))
        if self.timeout_ms:
            due.append(begun_ms + self.timeout_ms)
        return min(due, default=None)
