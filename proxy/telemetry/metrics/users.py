"""Totals by user, of as many users as may have series of their own; the rest is `other`.

Rules:
- A request is counted in one series: its user's, if he has one when its second is folded in, else `other`'s. So
  all series together count everything, and none ever jumps because somebody else came or went.
- Who comes first gets a series while there are any left. Once a minute whoever of `other` made the most requests
  takes the series of whoever made the fewest, if they were more than twice as many; should the other one come back, he
  begins at nought, as after a restart (what the leaver had counted since the last scrape nobody sees).
- Whatever number of users there is, memory is bounded: MAX_CANDIDATES of `other` are told apart in a minute.
- Rows are folded in by turns of MAX_FOLDED (about half a millisecond), because the core hands them over on the loop.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.stats.usage import OTHER as SHARED
from proxy.core.stats.usage import WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.stats.usage import UsageRow

OTHER = "other"
"""A user who is really called that has no series of his own."""
MAX_FOLDED = 1000
NO_END = 1 << 60
STALE_MS = 3 * WINDOW_MS
"""When no second has ended for so long (nobody is connected) the last one's rates are over."""
MAX_CANDIDATES = 10_000
RANK_EVERY_MS = 60_000
BUSIER = 2.0
"""How many times the requests of whom one replaces."""
MAX_LABEL_CHARS = 120
"""Characters of a name; users whose names begin alike share a series."""


class Tally:
    """What one series has counted. Times in milliseconds."""

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
        """One more row."""
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
    """One series as it is shown."""

    user: str
    tally: Tally
    rate: int
    """Requests in the last whole second."""


class UserBook:
    """See the module. What is shown is what was folded in."""

    def __init__(self, max_users: int) -> None:
        self.exempt = 0
        """Requests that no quota counts, of all users."""
        self._max_users = max_users
        self._shown: dict[str, Tally] = {}
        self._other = Tally()
        self._candidates: dict[str, int] = {}
        self._rows: Sequence[UsageRow] = ()
        self._at = 0  # so many of them are in
        self._last_ms = 0
        self._ranked_ms = 0

    def put(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """A second is over; its rows wait to be folded in."""
        self.fold()
        self._rows, self._at, self._last_ms = rows, 0, ts_ms

    def fold(self, most: int = NO_END) -> bool:
        """Count at most so many of the rows that wait; whether any are left."""
        rows, start = self._rows, self._at
        self._at = stop = min(len(rows), start + most)
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
        """Every series that has counted anything, after all rows were folded in."""
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
        """A minute is over: the busiest of `other` against the least busy of those that are shown."""
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
    """A name as it is shown: whoever speaks has chosen it."""
    if len(user) <= MAX_LABEL_CHARS and user.isprintable():
        return user
    return "".join(c if c.isprintable() else "?" for c in user[:MAX_LABEL_CHARS])
