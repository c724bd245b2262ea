"""How fast a request that uses memory must arrive, and which slow ones are closed in favour of others.

Rules:
- A request whose client sends less than the minimum rate is closed after START_MS: it stalls. Bytes before its body
  (its head, or what a client shows while it waits) must also arrive by the read timeout.
- A body that arrives at the minimum rate or faster is never closed while no other request needs its memory.
- If a request has waited for SHARE_CHECK_MS, one that arrives much more slowly than that one would is closed: the
  slowest of those whose (user, address) has more than an equal part of the pool, or that are older than the read
  timeout. One is closed each SHARE_CHECK_MS while a request waits, which comes first then. The lower of the mean and
  the recent rate counts (`slow_holders`).
"""

from __future__ import annotations

from dataclasses import dataclass

START_MS = 5_000
"""No client is judged slow earlier, and none is that needs no longer than this for the rest of its request."""
SHARE_CHECK_MS = 1_000
"""A request that has waited for so long needs the memory of others."""
SLOWER = 4
"""A request yields to one that waits if the rest of it takes START_MS and so many times as long as that one."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The time for a whole frame, and the minimum average rate at which it must arrive; 0: no limit."""

    timeout_ms: int = 30_000
    bytes_per_second: int = 1024

    def due_ms(self, begun_ms: int, received_bytes: int, *, is_body: bool = False) -> int | None:
        """Return when a frame that began at `begun_ms` may next be too slow, in ms; None: never.

        The time for the whole frame does not end while its body arrives (`is_body`).
        """
        due = []
        if self.bytes_per_second:
            enough_ms = received_bytes * 1000 // self.bytes_per_second + 1
            due.append(begun_ms + max(enough_ms, START_MS))
        if self.timeout_ms and not is_body:
            due.append(begun_ms + self.timeout_ms)
        return min(due, default=None)

    def is_too_slow(self, received_bytes: int, elapsed_ms: int) -> bool:
        """Return whether so few bytes in this time are a stall."""
        return elapsed_ms >= START_MS and received_bytes * 1000 < self.bytes_per_second * elapsed_ms


def yields(left_ms: int, waiting_left_ms: int) -> bool:
    """Return whether a request that needs `left_ms` for its rest yields to one that would need `waiting_left_ms`."""
    return left_ms > START_MS + SLOWER * waiting_left_ms
