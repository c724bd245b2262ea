"""The effect of quotas on clients: throttle times per bucket, and the rows of listings.

Rules (Kafka: the `throttle-time` sensor of `ClientQuotaManager`, default metric config):
- Only delays above 0 are recorded: a client that was never throttled has no throttle time, rather than 0.
- There are two samples of 30 s: 60 s after the last throttle there is no value again (Kafka's NaN).
- The request rate, or byte rate, is the bucket's own `SampledRate`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SAMPLES: Final = 2
WINDOW_MS: Final = 30_000
_SPAN_MS: Final = SAMPLES * WINDOW_MS


class _SampleWindow:
    __slots__ = ("begun_ms", "count", "last_ms", "max_ms", "sum_ms")

    def __init__(self, begun_ms: int) -> None:
        self.begun_ms = begun_ms
        self.last_ms = begun_ms
        self.count = 0
        self.sum_ms = 0
        self.max_ms = 0


class ThrottleTime:
    """Average and maximum of the delays imposed on one bucket's requests, in ms."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: list[_SampleWindow] = []

    def record(self, throttle_time_ms: int, now_ms: int) -> None:
        """Record a delay above 0 ms."""
        begun_ms = now_ms - now_ms % WINDOW_MS
        windows = self._windows
        if not windows or windows[-1].begun_ms < begun_ms:
            self._windows = windows = self._alive(now_ms)
            windows.append(_SampleWindow(begun_ms))
        window = windows[-1]
        window.last_ms = now_ms
        window.count += 1
        window.sum_ms += throttle_time_ms
        if throttle_time_ms > window.max_ms:  # noqa: PLR1730 - a call of max is too slow here
            window.max_ms = throttle_time_ms

    def average_ms(self, now_ms: int) -> float | None:
        """Return the average of the recent delays in ms; None if there was none."""
        alive = self._alive(now_ms)
        return (
            sum(each.sum_ms for each in alive) / sum(each.count for each in alive)
            if alive
            else None
        )

    def max_ms(self, now_ms: int) -> int | None:
        """Return the largest of the recent delays in ms; None if there was none."""
        return max((each.max_ms for each in self._alive(now_ms)), default=None)

    def _alive(self, now_ms: int) -> list[_SampleWindow]:
        return [each for each in self._windows if now_ms - each.last_ms < _SPAN_MS]


class BucketMetrics(NamedTuple):
    """One bucket as `quotas top` and the metrics page show it."""

    user: str
    """"" = the bucket is for all users; `<default>` = shared by clients because there are too many."""
    client_id: str
    """The same for the client id."""
    key: str
    """request_rate, producer_byte_rate or consumer_byte_rate."""
    limit: float
    """Per second."""
    rate: float
    """Per second, over the last ten seconds; of the requests that passed."""
    throttle_avg_ms: float | None
    throttle_max_ms: int | None
    """None: not throttled in the last minute."""
    waiting: int
    """Requests that are held now."""
