"""The arithmetic of quotas: Kafka's sampled rate, its throttle time, and a smooth release schedule.

Rules:
- Standard library only and pure: no clock, and no state outside the objects. Spark jobs import it too.
- `SampledRate` is Kafka's Rate over a WindowedSum (KIP-124; `SampledStat`, `Rate.windowSize` of 3.8 and later) with
  windows that begin at whole multiples of `window_ms` instead of at an event.
- A violation is recorded first and judged afterwards, and stays recorded.
- `ReleaseSchedule` computes when the next request may pass. It is equivalent to KIP-599's token bucket, whose credits
  may be negative.
- Rates and bounds are per second, times in ms. Limits are above zero.
"""

from __future__ import annotations

from math import floor, inf, isnan
from typing import Final

MAX_THROTTLE_MS: Final = 0x7FFF_FFFF
"""The largest throttle_time_ms, an int32.

In Kafka a longer delay wraps around and does not throttle; it is clamped here."""


def throttle_time_ms(
    observed: float, bound: float, window_ms: int, cap_ms: int | None = None
) -> int:
    """Return the delay in ms that brings `observed` down to `bound`: (O - T) / T * window, rounded half up.

    `window_ms` is the span that `observed` was measured over, not one sample (`QuotaUtils`). Returns 0 when
    `observed` is within the bound, and for a violation of less than half a millisecond.
    """
    if isnan(observed) or observed <= bound:
        return 0
    max_ms = MAX_THROTTLE_MS if cap_ms is None else min(cap_ms, MAX_THROTTLE_MS)
    excess_ms = (observed - bound) / bound * window_ms if bound > 0 else inf
    return max_ms if excess_ms >= max_ms else floor(excess_ms + 0.5)


class SampledRate:
    """A sum over `samples` windows of `window_ms`, and the part of it that overlaps the left edge.

    A window counts until its last event is `samples * window_ms` old. Times do not go backwards. Recording allocates
    memory once per window only.
    """

    __slots__ = (
        "_begun_ms",
        "_closed",
        "_closed_sum",
        "_min_span_ms",
        "_oldest_ms",
        "_span_ms",
        "_window_ms",
        "last_ms",
        "sum",
        "valid_ms",
    )

    def __init__(self, samples: int = 11, window_ms: int = 1000) -> None:
        self._window_ms = window_ms
        self._span_ms = samples * window_ms
        self._min_span_ms = (samples - 1) * window_ms
        self._closed: list[tuple[int, int, float]] = []  # begun, last event, sum; oldest first
        self._closed_sum = 0.0
        self._begun_ms = 0  # the current window
        self.sum = 0.0
        """The sum of the current window."""
        self._oldest_ms = 0  # when the oldest window that counts began
        self.valid_ms = -1
        """Until when the three sums and `_oldest_ms` stay valid: before that, to record is to add to `sum`."""
        self.last_ms = -1
        """Time of the last record, even of a value of 0; -1: there was none."""

    def record(self, value: float, now_ms: int) -> None:
        """Add `value`; it may be 0, or negative to take back what was recorded."""
        if now_ms >= self.valid_ms:
            self._roll(now_ms)
        self.sum += value
        self.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate per second at `now_ms`, which may be in the future: measuring changes nothing."""
        return self.observe(now_ms)[0]

    def window_ms_at(self, now_ms: int) -> int:
        """Return the span in ms that `measure` divides by: missing whole windows count as empty ones."""
        is_valid = now_ms < self.valid_ms
        elapsed_ms = now_ms - self._oldest_ms if is_valid else self._measure(now_ms)[1]
        min_span_ms = self._min_span_ms
        if elapsed_ms < min_span_ms:
            elapsed_ms = min_span_ms + elapsed_ms % self._window_ms
        return elapsed_ms if elapsed_ms > 0 else 1

    def rate_for_delay(self, delay_ms: float, bound: float, now_ms: int) -> float:
        """Return the rate for which `throttle_time_ms` returns this delay: the inverse of its formula."""
        return bound * (1 + delay_ms / self.window_ms_at(now_ms))

    def observe(self, now_ms: int) -> tuple[float, int]:
        """Return the rate per second, and the span in ms that it is measured over."""
        if now_ms < self.valid_ms:
            total = self._closed_sum + self.sum
            elapsed_ms = now_ms - self._oldest_ms
        else:
            total, elapsed_ms = self._measure(now_ms)
        min_span_ms = self._min_span_ms
        if elapsed_ms < min_span_ms:
            elapsed_ms = min_span_ms + elapsed_ms % self._window_ms
        if elapsed_ms < 1:  # noqa: PLR1730 - a call of max costs as much as all the rest
            elapsed_ms = 1
        return total / (elapsed_ms / 1000), elapsed_ms

    def unused(self, now_ms: int) -> bool:
        """Return whether no record counts any more."""
        return self.last_ms < 0 or now_ms - self.last_ms >= self._span_ms

    def windows(self, now_ms: int) -> int:
        """Return how many windows with an event still count."""
        return sum(1 for each in self._all() if now_ms - each[1] < self._span_ms)

    def _all(self) -> list[tuple[int, int, float]]:
        last_ms = self.last_ms
        if last_ms < self._begun_ms:
            return self._closed
        return [*self._closed, (self._begun_ms, last_ms, self.sum)]

    def _measure(self, now_ms: int) -> tuple[float, int]:
        span_ms = self._span_ms
        alive = [each for each in self._all() if now_ms - each[1] < span_ms]
        if not alive:
            return 0.0, 0
        return sum(each[2] for each in alive), now_ms - alive[0][0]

    def _roll(self, now_ms: int) -> None:
        """Drop windows that no longer count, and begin a new one if the current one is over."""
        span_ms = self._span_ms
        begun_ms = now_ms - now_ms % self._window_ms
        if begun_ms > self._begun_ms:
            closed = self._all()
            self._begun_ms = begun_ms
            self.sum = 0.0
        else:
            closed = self._closed
        self._closed = closed = [each for each in closed if now_ms - each[1] < span_ms]
        self._closed_sum = sum(each[2] for each in closed)
        begun_ms = self._begun_ms
        self._oldest_ms = closed[0][0] if closed else begun_ms
        self.valid_ms = begun_ms + self._window_ms
        if closed:  # their last events are in order, so the oldest is the first to go
            self.valid_ms = min(self.valid_ms, closed[0][1] + span_ms)


class ReleaseSchedule:
    """Computes when the next request may pass: `rate_per_s` on average, and `burst_ms` worth of them at once.

    `pass_ms + burst_ms` is when all that was charged is paid for. So of cost 1 no more than rate * (s + burst) + 1
    pass in any s seconds, and no request waits longer than that requires.
    """

    __slots__ = ("burst_ms", "pass_ms", "unit_ms")

    def __init__(self, rate_per_s: float, burst_ms: float) -> None:
        self.burst_ms = burst_ms
        self.unit_ms = 1000 / rate_per_s
        """The time that pays for a cost of one, in ms."""
        self.pass_ms = -inf
        """When the next request may pass."""

    def delay_ms(self, now_ms: float) -> float:
        """Return the time until the next request may pass in ms; 0 or less: now."""
        return self.pass_ms - now_ms

    def charge(self, cost: float, now_ms: float) -> float:
        """Add `cost` to the debt (a negative cost gives back). Returns the delay in ms for the next request."""
        earliest_ms = now_ms - self.burst_ms
        self.pass_ms = pass_ms = max(self.pass_ms, earliest_ms) + cost * self.unit_ms
        return pass_ms - now_ms

    def credits(self, now_ms: float) -> float:
        """Return the cost that may pass at once; below zero: the debt beyond the burst."""
        return min(self.burst_ms, now_ms - self.pass_ms) / self.unit_ms

    def is_paid(self, now_ms: float) -> bool:
        """Return whether nothing is owed: a new schedule would be in the same state."""
        return self.pass_ms + self.burst_ms <= now_ms

    def set_rate(self, rate_per_s: float, now_ms: float) -> None:
        """Set a new rate from `now_ms` on. Credits, saved or owed, stay the same number of units.

        So a higher rate grants no burst that was not saved, and pays a debt sooner. Savings are cut to the burst of
        the new rate.
        """
        saved = self.credits(now_ms) if self.unit_ms else inf  # without a limit nothing is owed
        self.unit_ms = unit_ms = 1000 / rate_per_s
        if unit_ms:
            self.pass_ms = now_ms - min(saved * unit_ms, self.burst_ms)
        else:
            self.pass_ms = now_ms - self.burst_ms
