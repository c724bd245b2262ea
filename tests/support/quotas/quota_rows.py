"""The behaviours of users under a quota (`Row`), and the result of each (`Tally`)."""

import bisect
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

BURST_SECONDS: Final = 2  # the policy's default


@dataclass(frozen=True, slots=True)
class Row:
    """The behaviour of one user."""

    user: str
    connections: int = 1
    depth: int = 1
    """The number of requests that each connection keeps unanswered."""
    reconnect: bool = False
    """A new connection, and a new login, for every request."""
    disguise: bool = False
    """A random client id in every request."""
    nodes: int = 1
    """The number of brokers' ports that the connections use."""
    offered_per_s: float | None = None
    """The highest rate of requests; None = as many as are answered."""
    produce: bytes | None = None
    """A Produce v7 body to send instead of Heartbeats."""


@dataclass(slots=True)
class Tally:
    """The result of one row."""

    answered: list[float] = field(default_factory=list)
    """The time of each answer, by `time.monotonic`."""
    throttle_ms: list[int] = field(default_factory=list)
    """The throttle time in each answer."""
    asked: list[float] = field(default_factory=list)
    """The time of the request of each answer."""
    signed_on: int = 0
    problems: list[str] = field(default_factory=list)

    def between(self, start: float, stop: float) -> int:
        """Return the number of answers between these times."""
        return bisect.bisect(self.answered, stop) - bisect.bisect(self.answered, start)

    def rate(self, start: float, stop: float) -> float:
        """Return the answers per second between these times."""
        return self.between(start, stop) / (stop - start)

    def most_within(self, seconds: float) -> int:
        """Return the most requests that were sent and answered within an interval of this length.

        The proxy let each of them pass in that interval too, on a machine of any speed.
        """
        most = 0
        for start in self.asked:
            first, last = (bisect.bisect(self.answered, at) for at in (start, start + seconds))
            most = max(most, sum(asked >= start for asked in self.asked[first:last]))
        return most

    @property
    def longest_s(self) -> float:
        """The longest time from a request to its answer; 0 without any."""
        return max(self._took(), default=0.0)

    @property
    def mean_s(self) -> float:
        """The mean time from a request to its answer; raises StatisticsError without any."""
        return statistics.fmean(self._took())

    def _took(self) -> Iterator[float]:
        return (end - start for start, end in zip(self.asked, self.answered, strict=True))
