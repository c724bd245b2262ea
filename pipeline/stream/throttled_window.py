"""How much of its last minutes a client was throttled: exact to the second, in the time of the rows.

Rules:
- The throttled share of a second is `blocked_ms` / (`connections` x 1000): 1 if all connections were muted all the
  time. Rows of one second by several processes of one name are added up; one that was delivered twice counts once.
- A second is judged as soon as a row of it is there: Sluice writes the rows of a client in the order of time, so those
  before are there, too. A row that comes later all the same counts in the judgements after it.
- An alert is raised when the shares of the last seconds, as many as the window has, add up to more than RAISE_SHARE of
  them, and cleared when they add up to CLEAR_SHARE or less. Seconds without a row count as not throttled. A silent
  client is judged by the watermark, which other clients move.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOW_SECONDS: Final = 300
RAISE_SHARE: Final = 0.8
CLEAR_SHARE: Final = 0.5


class Crossing(NamedTuple):
    """An alert that is raised, or cleared, at the end of a second."""

    raised: bool
    at_ms: int
    raised_ms: int
    """When it was raised; the same as `at_ms` if it is now."""
    share: float
    """The throttled share of the window."""
    quota: str | None
    """The quota in force in the last second with a row."""


class _Row(NamedTuple):
    """What one process says of a second."""

    blocked_ms: int
    connections: int
    quota: str | None


class ThrottledWindow:
    """The throttled seconds of one client; they are kept until they have left the window."""

    def __init__(self, size_seconds: int = WINDOW_SECONDS) -> None:
        self.size_seconds: Final = size_seconds
        self._seconds: dict[int, dict[str, _Row]] = {}
        """The rows of each second, by the process (`boot`) that wrote them."""
        self._judged_s = -1
        self._raised_ms: int | None = None

    def __bool__(self) -> bool:
        """Return whether anything may come of it without a further row."""
        return bool(self._seconds)

    @property
    def newest_ms(self) -> int:
        """Return the time of the newest second, which must be there."""
        return max(self._seconds) * 1000

    def add(
        self, ts_ms: int, boot: str, blocked_ms: int, connections: int, quota: str | None
    ) -> None:
        """Add a row with a throttle."""
        self._seconds.setdefault(ts_ms // 1000, {})[boot] = _Row(blocked_ms, connections, quota)

    def advance(self, until_ms: int) -> Iterator[Crossing]:
        """Judge each second up to that of `until_ms`, and yield the alerts."""
        if not self._seconds:
            return
        begin = max(self._judged_s + 1, min(self._seconds))
        end = min(until_ms // 1000, max(self._seconds) + self.size_seconds)
        throttled_ms = sum(self._share_ms(at) for at in range(begin - self.size_seconds, begin))
        for second in range(begin, end + 1):
            throttled_ms += self._share_ms(second) - self._share_ms(second - self.size_seconds)
            share = throttled_ms / (self.size_seconds * 1000)
            at_ms = (second + 1) * 1000
            if self._raised_ms is None and share > RAISE_SHARE:
                self._raised_ms = at_ms
                yield Crossing(True, at_ms, at_ms, share, self._quota_at(second))
            elif self._raised_ms is not None and share <= CLEAR_SHARE:
                yield Crossing(False, at_ms, self._raised_ms, share, self._quota_at(second))
                self._raised_ms = None
        self._judged_s = max(self._judged_s, end)
        gone = self._judged_s + 1 - self.size_seconds
        self._seconds = {at: rows for at, rows in self._seconds.items() if at >= gone}

    def _share_ms(self, second: int) -> int:
        rows = self._seconds.get(second, {}).values()
        blocked_ms = sum(each.blocked_ms for each in rows)
        return min(1000, blocked_ms // max(1, sum(each.connections for each in rows)))

    def _quota_at(self, second: int) -> str | None:
        """Return the quota of the newest row of `second` or before."""
        rows = self._seconds[max(at for at in self._seconds if at <= second)]
        return rows[max(rows)].quota

    def dump(self) -> str:
        """Return the state as JSON, for `load`: names of processes and quotas are there once."""
        names = sorted({name for rows in self._seconds.values() for name in _names(rows)})
        place: dict[str | None, int] = {name: at for at, name in enumerate(names)}
        rows = [
            (at, place[boot], row.blocked_ms, row.connections, place.get(row.quota, -1))
            for at, rows in sorted(self._seconds.items())
            for boot, row in rows.items()
        ]
        state = (self._judged_s, self._raised_ms, names, rows)
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def load(cls, text: str, size_seconds: int = WINDOW_SECONDS) -> ThrottledWindow:
        """Return the window of which `dump` returned the state; its size may have been another."""
        window = cls(size_seconds)
        window._judged_s, window._raised_ms, names, rows = json.loads(text)
        for at, boot, blocked_ms, connections, quota in rows:
            name = names[quota] if quota >= 0 else None
            window.add(at * 1000, names[boot], blocked_ms, connections, name)
        return window


def _names(rows: dict[str, _Row]) -> Iterator[str]:
    yield from rows
    yield from (row.quota for row in rows.values() if row.quota is not None)
