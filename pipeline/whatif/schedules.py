"""The arithmetic of `policies.quota.rate` for many buckets at once, in numpy.

Rules:
- Each class is a column of the objects of the same name there, and does the same floating-point operations in the same
  order. So each value is equal, bit for bit, to the proxy's own (sums of whole numbers are exact below 2^53).
- `which` names the buckets of a call by their places, each at most once.
- Times are in ms, rates per second, limits above zero. The times of one bucket do not go backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]


class ReleaseSchedules:
    """A `ReleaseSchedule` for each bucket, all with the same burst."""

    def __init__(self, rate_per_s: Reals, burst_ms: float) -> None:
        self.burst_ms = burst_ms
        self.unit_ms: Reals = 1000 / rate_per_s
        self.pass_ms: Reals = np.full(len(rate_per_s), -np.inf)

    def delay_ms(self, which: Ints, now_ms: Reals) -> Reals:
        """Return the time until the next request of each bucket may pass in ms; 0 or less: now."""
        return np.asarray(self.pass_ms[which] - now_ms)

    def charge(self, which: Ints, cost: Reals, now_ms: Reals) -> Reals:
        """Add `cost` to each debt. Returns the delay in ms for the next request of each bucket."""
        earliest_ms = now_ms - self.burst_ms
        pass_ms = np.maximum(self.pass_ms[which], earliest_ms) + cost * self.unit_ms[which]
        self.pass_ms[which] = pass_ms
        return np.asarray(pass_ms - now_ms)

    def credits(self, which: Ints, now_ms: Reals) -> Reals:
        """Return the cost that may pass at once in each bucket; below zero: the debt beyond the burst."""
        saved_ms = np.minimum(self.burst_ms, now_ms - self.pass_ms[which])
        return np.asarray(saved_ms / self.unit_ms[which])


class SampledRates:
    """A `SampledRate` for each bucket, all with the same windows."""

    def __init__(self, buckets: int, samples: int = 11, window_ms: int = 1000) -> None:
        self._window_ms = window_ms
        self._span_ms = samples * window_ms
        self._min_span_ms = (samples - 1) * window_ms
        # A window counts for `samples` windows after its last event, so one more may be in use.
        self._slots = samples + 1
        self._begun_ms = np.full((buckets, self._slots), -1, np.int64)
        self._last_ms = np.zeros((buckets, self._slots), np.int64)
        self._sums = np.zeros((buckets, self._slots))

    def record(self, which: Ints, value: Reals, now_ms: Ints) -> None:
        """Add a value to each bucket."""
        begun_ms = now_ms - now_ms % self._window_ms
        slot = now_ms // self._window_ms % self._slots
        kept = self._begun_ms[which, slot] == begun_ms
        self._sums[which, slot] = np.where(kept, self._sums[which, slot], 0.0) + value
        self._begun_ms[which, slot] = begun_ms
        self._last_ms[which, slot] = now_ms

    def totals(self, which: Ints, now_ms: Ints) -> tuple[Reals, Ints]:
        """Return the sum of the windows that count, and the span in ms that it is measured over."""
        begun_ms = self._begun_ms[which]
        now = now_ms[:, None]
        alive = (begun_ms >= 0) & (now - self._last_ms[which] < self._span_ms)
        total = np.where(alive, self._sums[which], 0.0).sum(axis=1)
        elapsed_ms = now_ms - np.where(alive, begun_ms, now).min(axis=1)
        short = elapsed_ms < self._min_span_ms
        elapsed_ms = np.where(short, self._min_span_ms + elapsed_ms % self._window_ms, elapsed_ms)
        return total, np.maximum(elapsed_ms, 1)

    def expiry_ms(self, which: Ints, now_ms: Ints) -> Ints:
        """Return when the oldest window that counts at `now_ms` ceases to count; far in the future if there is none."""
        begun_ms, last_ms = self._begun_ms[which], self._last_ms[which]
        alive = (begun_ms >= 0) & (now_ms[:, None] - last_ms < self._span_ms)
        ends_ms: Ints = np.where(alive, last_ms + self._span_ms, np.iinfo(np.int64).max)
        return np.asarray(ends_ms.min(axis=1))

    def observe(self, which: Ints, now_ms: Ints) -> tuple[Reals, Ints]:
        """Return the rate per second of each bucket, and the span in ms that it is measured over."""
        total, elapsed_ms = self.totals(which, now_ms)
        return total / (elapsed_ms / 1000), elapsed_ms
