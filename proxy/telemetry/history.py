"""The last fifteen minutes, one point per second.

Rules:
- A point is made when the core reports the end of a second. Without connections it reports none; those seconds are
  filled with empty points when the history is read.
- The newest point is the last second that has ended, so it is up to one second old.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from proxy.core.observer import Observer
from proxy.core.stats.usage import WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.engine import Engine
    from proxy.core.stats.usage import UsageRow

POINTS = 15 * 60


class Point(msgspec.Struct, frozen=True):
    """One second, which ended at `ts_ms`, with the levels at its end."""

    ts_ms: int
    requests_per_s: float
    throttled_per_s: float
    parked: int
    """Requests that policies hold."""
    pool_used_bytes: int
    """Bytes in use of both pools."""
    connections: int
    loop_lag_p99_ms: float
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    errors_per_s: float = 0.0
    """Requests that the broker did not answer: it was silent, or the connection ended."""


class History(Observer):
    """Keeps the points. Call `attach` before reading."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._engine: Engine
        self._lag_ms: Callable[[], float] = float
        self._errors: Callable[[], int] = int

    def attach(
        self,
        engine: Engine,
        lag_ms: Callable[[], float] = float,
        errors: Callable[[], int] = int,
    ) -> None:
        """Set the sources: the engine, the 99th percentile of the loop's lag in milliseconds, and the number of errors
        in the second that ends.
        """
        self._engine = engine
        self._lag_ms = lag_ms
        self._errors = errors

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        requests = throttled = bytes_in = bytes_out = 0
        for row in rows:
            requests += row.requests
            throttled += row.throttled
            bytes_in += row.request_bytes
            bytes_out += row.response_bytes
        engine = self._engine
        self._points.append(
            Point(
                ts_ms + WINDOW_MS,
                float(requests),
                float(throttled),
                engine.holds.num_delayed,
                engine.request_pool.used_bytes + engine.reply_pool.used_bytes,
                len(engine.sessions),
                self._lag_ms(),
                float(bytes_in),
                float(bytes_out),
                float(self._errors()),
            )
        )

    def latest(self, now_ms: int) -> Point:
        """Return the point of the last second that has ended."""
        ended_ms = now_ms - now_ms % WINDOW_MS
        # The engine ends a second with the first step after it, so a point may be that late.
        if self._points and self._points[-1].ts_ms >= ended_ms - WINDOW_MS:
            return self._points[-1]
        return _nothing(ended_ms, self._lag_ms())

    def points(self, now_ms: int) -> list[Point]:
        """Return the points of the last fifteen minutes, the oldest first, without gaps since the first."""
        ended_ms = now_ms - now_ms % WINDOW_MS
        oldest_ms = ended_ms - POINTS * WINDOW_MS
        filled: list[Point] = []
        for point in (*self._points, None):
            until_ms = ended_ms if point is None else point.ts_ms
            if filled:
                since_ms = max(filled[-1].ts_ms, oldest_ms) + WINDOW_MS
                filled += map(_nothing, range(since_ms, until_ms, WINDOW_MS))
            if point is not None and point.ts_ms > oldest_ms:
                filled.append(point)
            elif point is not None:
                filled = [point]  # too old to be shown, but the gap begins there
        return [point for point in filled if point.ts_ms > oldest_ms]


def _nothing(ts_ms: int, lag_ms: float = 0.0) -> Point:
    return Point(ts_ms, 0.0, 0.0, 0, 0, 0, lag_ms)
