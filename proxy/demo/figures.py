"""Latencies in buckets that grow by a twentieth: small to send, easy to join, 5 % exact.

Rules:
- Bucket b holds latencies of at least 1.05**b and less than 1.05**(b+1) times 10 microseconds.
- A percentile is its bucket's upper edge: never told smaller than it was.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALLEST_MS = 0.01
_LOG_STEP = math.log(1.05)


class Latencies:
    """A histogram of milliseconds."""

    def __init__(self, buckets: Mapping[int, int] | None = None) -> None:
        self._buckets = Counter(buckets or {})

    def add(self, latency_ms: float) -> None:
        """Count one; anything under 10 microseconds counts as that."""
        self._buckets[int(math.log(max(latency_ms, SMALLEST_MS) / SMALLEST_MS) / _LOG_STEP)] += 1

    def join(self, buckets: Mapping[int, int]) -> None:
        """Count what another histogram counted."""
        self._buckets.update(buckets)

    def take(self) -> dict[int, int]:
        """Return the buckets and start anew."""
        buckets, self._buckets = dict(self._buckets), Counter()
        return buckets

    def maybe_percentile_ms(self, percent: float) -> float | None:
        """Return the latency that `percent` of all did not exceed; None when there are none."""
        wanted = self._buckets.total() * percent / 100
        seen = 0
        for bucket, count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return SMALLEST_MS * math.exp((bucket + 1) * _LOG_STEP)
        return None


class Pace:
    """How many events are due: a steady rate that catches up after a stall, within limits."""

    def __init__(self, per_second: float, now_s: float, most: int) -> None:
        self._per_second = per_second
        self._last_s = now_s
        self._most = most

    def due(self, now_s: float) -> int:
        """Return how many may be done now, at most `most`; what exceeds it is forgotten."""
        count = int((now_s - self._last_s) * self._per_second)
        if count > self._most:
            self._last_s = now_s
            return self._most
        self._last_s += count / self._per_second
        return count
