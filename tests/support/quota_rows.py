"""Ways to behave under a quota, one user each (`Row`), and what became of them (`Tally`)."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Final

BURST_SECONDS: Final = 2  # the policy's default


@dataclass(frozen=True, slots=True)
class Row:
    """How one user behaves."""

    user: str
    connections: int = 1
    depth: int = 1
    """How many requests each connection keeps unanswered."""
    reconnect: bool = False
    """A new connection, and a new sign-on, for every request."""
    disguise: bool = False
    """A random client id in every request."""
    nodes: int = 1
    """How many brokers' ports the connections are spread over."""
    offered_per_s: float | None = None
    """Not more than this is asked; None = as much as is answered."""
    produce: bytes | None = None
    """A Produce v7 body to send instead of Heartbeats."""


@dataclass(slots=True)
class Tally:
    """What became of one row."""

    answered: list[float] = field(default_factory=list)
    """When, by `time.monotonic`."""
    throttle_ms: list[int] = field(default_factory=list)
    """What each answer said."""
    longest_s: float = 0.0
    """From a request to its answer."""
    signed_on: int = 0
    problems: list[str] = field(default_factory=list)

    def between(self, start: float, stop: float) -> int:
        """Answers within."""
        return bisect.bisect(self.answered, stop) - bisect.bisect(self.answered, start)

    def rate(self, start: float, stop: float) -> float:
        """Answers per second within."""
        return self.between(start, stop) / (stop - start)

    def most_within(self, seconds: float) -> int:
        """The most answers in any interval of this length."""
        most, first = 0, 0
        for place, when in enumerate(self.answered):
            while when - self.answered[first] > seconds:
                first += 1
            most = max(most, place - first + 1)
        return most
