"""Totals by user, for a limited number of users; all others share the series `other`.

Rules:
- A request is counted in one series: that of its user if there is one when the second is counted, else `other`. So the
  sum of all series is complete, and no series jumps when another user comes or goes.
- The first users get a series each. Once per minute the busiest users of `other` replace the least busy ones that have
  a series, if they made more than twice as many requests. A user that gets a series again starts at 0, as after a
  restart; the counts of a replaced series since the last scrape are lost.
- Memory is bounded: MAX_CANDIDATES users of `other` are told apart within a minute.
- Rows are counted in batches of MAX_FOLDED (about half a millisecond), because it happens on the loop.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.stats.usage import OTHER as SHARED
from proxy.core.stats.usage import WINDOW_MS
from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.stats.usage import UsageRow

OTHER = "other"
"""A user with this very name has no series of its own."""
MAX_FOLDED = 1000
NO_END = 1 << 60
STALE_MS = 3 * WINDOW_MS
"""If no second has ended for so long, no client is connected, and the rates are 0."""
MAX_CANDIDATES = 10_000
RANK_EVERY_MS = 60_000
BUSIER = 2.0
"""A user must have made this many times the requests of the one it replaces."""
MAX_LABEL_CHARS = 120
"""Longer names are cut, so users may share a series."""


class Tally:
    """The counts of one series. Times are in milliseconds."""

    __slots__ = (
        "rate",
        "recent",
        "request_bytes",
        "requests",
        "response_bytes",
        "throttle_ms",
        "throttled",
        "ts_ms",
    )

    def __init__(self) -> None:
        self.requests = self.request_bytes = self.response_bytes = 0
        self.throttled = self.throttle_ms = 0
        self.rate = 0  # requests in the second that began at ts_ms
        self.ts_ms = -1
        self.recent = 0  # since the last ranking

    def add(self, row: UsageRow) -> None:
        """Add the counts of a row."""
        requests = row.requests
        self.requests += requests
        self.recent += requests
        self.request_bytes += row.request_bytes
        self.response_bytes += row.response_bytes
        if row.throttled:
            self.throttled += row.throttled
            self.throttle_ms += row.throttle_ms
        if row.ts_ms != self.ts_ms:
            self.ts_ms = row.ts_ms
            self.rate = 0
        self.rate += requests


class UserSeries(NamedTuple):
    """One series: the user, the counts and the rate."""

    user: str
    tally: Tally
    rate: int
    """Requests in the last second that has ended."""


class UserBook:
    """Counts rows by user: `put` them, `fold` them in, read `series`."""

    def __init__(self, max_users: int) -> None:
        self.exempt = 0
        """Requests that no quota counts, of all users."""
        self._max_users = max_users
        self._shown: dict[str, Tally] = {}
        self._other = Tally()
        self._candidates: dict[str, int] = {}
        self._rows: Sequence[UsageRow] = ()
        self._at = 0  # number of rows that are counted
        self._last_ms = 0
        self._ranked_ms = 0

    def put(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """Take the rows of a second that has ended, to be counted by `fold`."""
        self.fold()
        self._rows, self._at, self._last_ms = rows, 0, ts_ms

    def fold(self, max_rows: int = NO_END) -> bool:
        """Count at most `max_rows` of the rows; return whether any are left."""
        rows, start = self._rows, self._at
        self._at = stop = min(len(rows), start + max_rows)
        find = self._shown.get
        for row in rows[start:stop]:
            tally = find(row.user)
            if tally is None:
                tally = self._find(row)
            tally.add(row)
            self.exempt += row.exempt
        if stop < len(rows):
            return True
        self._rows, self._at = (), 0
        if self._last_ms - self._ranked_ms >= RANK_EVERY_MS:
            self._rank()
        return False

    def series(self, now_ms: int) -> list[UserSeries]:
        """Return all series with counts. Call it after all rows were counted."""
        tallies = [*self._shown.items()]
        if self._other.ts_ms >= 0:
            tallies.append((OTHER, self._other))
        last_ms = self._last_ms if now_ms - self._last_ms < STALE_MS else None
        return [
            UserSeries(user, tally, tally.rate if tally.ts_ms == last_ms else 0)
            for user, tally in tallies
        ]

    def _find(self, row: UsageRow) -> Tally:
        user = label_of(row.user)
        tally = self._shown.get(user)
        if tally is not None:
            return tally
        if user in {OTHER, SHARED}:
            return self._other
        if len(self._shown) < self._max_users:
            tally = self._shown[user] = Tally()
            return tally
        candidates = self._candidates
        if user in candidates or len(candidates) < MAX_CANDIDATES:
            candidates[user] = candidates.get(user, 0) + row.requests
        return self._other

    def _rank(self) -> None:
        """Give the series of the least busy users to the busiest of `other`."""
        self._ranked_ms = self._last_ms
        shown, candidates = self._shown, self._candidates
        busiest = nlargest(len(shown), candidates, key=candidates.__getitem__)
        idlest = sorted(shown, key=lambda user: shown[user].recent)
        for newcomer, leaver in zip(busiest, idlest, strict=False):
            if candidates[newcomer] <= BUSIER * shown[leaver].recent:
                break
            del shown[leaver]
            shown[newcomer] = Tally()
        candidates.clear()
        for tally in shown.values():
            tally.recent = 0


def label_of(user: str) -> str:
    """Return the label of a user: its name, cut and printable."""
    return printable(user, MAX_LABEL_CHARS)
