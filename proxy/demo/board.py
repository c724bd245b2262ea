"""The table of the demo: one standing a client, kept from its Ticks.

Rules:
- While it runs, latencies are those of the last two seconds; at the end, of the whole run.
- A client that tells nothing shows nothing: no figure is carried on or made up.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.figures import Latencies

if TYPE_CHECKING:
    from proxy.demo.messages import Tick

RECENT_TICKS = 4
"""Clients tick every half second."""


class Row(NamedTuple):
    """What the table shows of one client."""

    name: str
    library: str
    requests_per_s: float
    records_per_s: float
    acked: int
    consumed: int
    p50_ms: float | None
    p99_ms: float | None


class Standing:
    """One client's figures."""

    def __init__(self, name: str, library: str) -> None:
        self.name = name
        self.library = library
        self.records = 0
        self._tick: Tick | None = None
        self._recent: deque[tuple[float, int, dict[int, int]]] = deque(maxlen=RECENT_TICKS)
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] = 0.0, 0
        self._whole = Latencies()
        self._requests: list[float] = []

    def take(self, tick: Tick, now_s: float) -> None:
        """Enter one Tick."""
        self._tick = tick
        self.records = tick.acked + tick.consumed
        self._recent.append((now_s, self.records, tick.latency))
        self._whole.join(tick.latency)
        if tick.latency:  # it was at work
            self._last = now_s, self.records
            self._first = self._first or self._last
            self._requests.append(tick.requests_per_s)

    def now(self) -> Row:
        """Return the last two seconds' row."""
        latencies = Latencies()
        for _, _, buckets in self._recent:
            latencies.join(buckets)
        requests_per_s = self._tick.requests_per_s if self._tick else 0.0
        return self._row(requests_per_s, self._recent_rate(), latencies)

    def whole(self) -> Row:
        """Return the whole run's row."""
        (first_s, first), (last_s, last) = self._first or self._last, self._last
        rate = (last - first) / (last_s - first_s) if last_s > first_s else 0.0
        requests = sum(self._requests) / len(self._requests) if self._requests else 0.0
        return self._row(requests, rate, self._whole)

    def _recent_rate(self) -> float:
        if len(self._recent) < 2:
            return 0.0
        (first_s, first, _), (last_s, last, _) = self._recent[0], self._recent[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def _row(self, requests_per_s: float, records_per_s: float, latencies: Latencies) -> Row:
        return Row(
            name=self.name,
            library=self.library,
            requests_per_s=requests_per_s,
            records_per_s=records_per_s,
            acked=self._tick.acked if self._tick else 0,
            consumed=self._tick.consumed if self._tick else 0,
            p50_ms=latencies.maybe_percentile_ms(50),
            p99_ms=latencies.maybe_percentile_ms(99),
        )
