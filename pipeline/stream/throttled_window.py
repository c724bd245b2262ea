"""How much of the last five minutes a client was throttled: exact to the second, in event time.

Rules:
- The throttled share of a second is `blocked_ms` / (`connections` x 1000): 1 if all connections were muted all the
  time. Two rows of one second (two processes of one name) are added up first.
- A second is judged once no more rows of it can come, that is when the watermark has reached it. So the alerts follow
  from the rows alone, in any batches and any order of arrival.
- An alert is raised when the shares of the last WINDOW_SECONDS add up to more than RAISE_SHARE of them, and cleared
  when they add up to CLEAR_SHARE or less. Seconds without a row count as not throttled, so silence clears an alert.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOW_SECONDS: Final = 300
RAISE_SHARE: Final = 0.8
CLEAR_SHARE: Final = 0.5
_RAISE_MS: Final = WINDOW_SECONDS * RAISE_SHARE * 1000
_CLEAR_MS: Final = WINDOW_SECONDS * CLEAR_SHARE * 1000


class Crossing(NamedTuple):
    """An alert that is raised, or cleared, at the end of a second."""

    raised: bool
    at_ms: int
    raised_ms: int
    """When it was raised; the same as `at_ms` if it is now."""
    throttled_ms: int
    """The sum of the shares of the last WINDOW_SECONDS, in ms."""
    quota: str | None
    """The quota in force in the last second with a row."""


class _Second(NamedTuple):
    blocked_ms: int
    connections: int
    quota: str | None

    @property
    def share_ms(self) -> int:
        return min(1000, self.blocked_ms // max(1, self.connections))


class ThrottledWindow:
    """The throttled seconds of one client; they are kept until they have left the window."""

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}
        self._judged_s = -1
        self._raised_ms: int | None = None
        self.timer_ms: int | None = None
        """When `advance` is due, as it was registered; None: not registered."""

    def add(self, ts_ms: int, blocked_ms: int, connections: int, quota: str | None) -> None:
        """Add a row with a throttle. A second that was judged already counts in later ones only."""
        second = ts_ms // 1000
        there = self._seconds.get(second)
        if there is not None:
            blocked_ms += there.blocked_ms
            connections += there.connections
        self._seconds[second] = _Second(blocked_ms, connections, quota)

    def advance(self, watermark_ms: int) -> Iterator[Crossing]:
        """Judge each second that the watermark has reached, and yield the alerts."""
        watermark_s = watermark_ms // 1000
        if not self._seconds:
            return
        begin = max(self._judged_s + 1, min(self._seconds))
        end = min(watermark_s, max(self._seconds) + WINDOW_SECONDS)
        throttled_ms = sum(
            each.share_ms
            for at, each in self._seconds.items()
            if begin - WINDOW_SECONDS <= at < begin
        )
        for second in range(begin, end + 1):
            entered = self._seconds.get(second)
            left = self._seconds.get(second - WINDOW_SECONDS)
            throttled_ms += entered.share_ms if entered else 0
            throttled_ms -= left.share_ms if left else 0
            at_ms = (second + 1) * 1000
            if self._raised_ms is None and throttled_ms > _RAISE_MS:
                self._raised_ms = at_ms
                yield Crossing(True, at_ms, at_ms, throttled_ms, self._quota_at(second))
            elif self._raised_ms is not None and throttled_ms <= _CLEAR_MS:
                quota = self._quota_at(second)
                yield Crossing(False, at_ms, self._raised_ms, throttled_ms, quota)
                self._raised_ms = None
        self._judged_s = max(self._judged_s, end)
        gone = self._judged_s + 1 - WINDOW_SECONDS
        self._seconds = {at: each for at, each in self._seconds.items() if at >= gone}

    def due_ms(self) -> int | None:
        """Return the watermark at which something may happen; None if the window is empty."""
        if not self._seconds:
            return None
        pending = [at for at in self._seconds if at > self._judged_s]
        if pending:
            return min(pending) * 1000
        if self._raised_ms is not None:
            return (self._judged_s + 1) * 1000
        return (max(self._seconds) + WINDOW_SECONDS) * 1000

    def _quota_at(self, second: int) -> str | None:
        """Return the quota of the newest row of `second` or before."""
        return self._seconds[max(at for at in self._seconds if at <= second)].quota

    def dump(self) -> str:
        """Return the state as JSON, for `load`."""
        quotas = sorted({each.quota for each in self._seconds.values() if each.quota is not None})
        places = {quota: place for place, quota in enumerate(quotas)}
        seconds = [
            (at, each.blocked_ms, each.connections, places.get(each.quota or "", -1))
            for at, each in sorted(self._seconds.items())
        ]
        state = (self._judged_s, self._raised_ms, self.timer_ms, quotas, seconds)
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> ThrottledWindow:
        """Return the window of which `dump` returned the state."""
        window = cls()
        window._judged_s, window._raised_ms, window.timer_ms, quotas, seconds = json.loads(text)
        window._seconds = {
            at: _Second(blocked_ms, connections, quotas[place] if place >= 0 else None)
            for at, blocked_ms, connections, place in seconds
        }
        return window
