"""How long the broker has for an answer before one is made here, and how often that has happened."""

from __future__ import annotations

from dataclasses import dataclass

MIN_WAIT_MS = 100
"""The least time in ms that the broker gets, even for a shorter timeout: an earlier reply here causes duplicates."""


@dataclass(frozen=True, slots=True)
class GraceTimes:
    """How long after its own timeout a request is answered here. `max_ms` caps the timeout that a client may set."""

    produce_ms: int = -500
    fetch_ms: int = 1000
    max_ms: int = 120_000
    silence_ms: int = 0
    """How long the broker must also have been silent; 0: its silence is not required."""

    def produce_wait_ms(self, timeout_ms: int) -> int:
        """Return the whole wait of a produce in ms. A negative grace takes half of the timeout at most."""
        timeout_ms = min(max(timeout_ms, 0), self.max_ms)
        return max(timeout_ms + max(self.produce_ms, -timeout_ms // 2), MIN_WAIT_MS)

    def fetch_wait_ms(self, max_wait_ms: int) -> int:
        """Return the whole wait of a fetch in ms."""
        return max(min(max_wait_ms, self.max_ms) + self.fetch_ms, MIN_WAIT_MS)


@dataclass(slots=True)
class Expired:
    """How many requests were answered here after their deadline."""

    produce: int = 0
    fetch: int = 0
    clamped: int = 0
    """Kinds of requests, of all sessions, whose own timeout was beyond `GraceTimes.max_ms`."""
