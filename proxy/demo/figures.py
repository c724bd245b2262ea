"""Latencies in buckets that grow by a hundredth: small to send, easy to join, 1 % exact.

Rules:
- Bucket b holds latencies of at least 1.01**b and less than 1.01**(b+1) times 10 microseconds.
- A percentile is its bucket's upper edge: never told smaller than it was.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALLEST_MS = 0.01
_LOG_STEP = math.log(1.01)


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
