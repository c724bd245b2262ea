"""The requests of each client in the last second, its throttle times in the last minute, and when it connected.

Rules:
- The rows of a second are kept as they come and are read on request only.
- Throttle times are counted in histograms of half a minute each; percentiles cover the last 30 to 60 seconds.
- At most MAX_KEYS clients have a histogram; the one that was throttled longest ago is replaced.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.observer import Observer
from proxy.core.stats.histogram import BUCKETS, bucket_of, joined, quantile_us
from proxy.core.stats.usage import WINDOW_MS
from proxy.telemetry.decisions import delayed_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.api import Peer
    from proxy.core.errors import CloseReason
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.core.stats.usage import UsageRow


MAX_KEYS = 1000
HALF_MS = 30_000
FRESH_MS = 2 * WINDOW_MS
"""How old the last second may be: the core reports it with the first step after its end."""


class Throttles:
    """How long the requests of one client were delayed."""

    __slots__ = ("before", "begun_ms", "count", "now", "total_ms")

    def __init__(self, now_ms: int) -> None:
        self.begun_ms = now_ms
        self.now = [0] * BUCKETS
        self.before: list[int] | None = None
        self.count = 0
        self.total_ms = 0

    def add(self, ms: int, now_ms: int) -> None:
        """Count a delay of `ms` milliseconds."""
        self.turn(now_ms)
        self.now[bucket_of(ms * 1000)] += 1
        self.count += 1
        self.total_ms += ms

    def turn(self, now_ms: int) -> None:
        """Discard half minutes that are over."""
        if now_ms - self.begun_ms >= HALF_MS:
            stale = now_ms - self.begun_ms >= 2 * HALF_MS
            self.before = None if stale else self.now
            self.now = [0] * BUCKETS
            self.begun_ms = now_ms

    def quantiles_ms(self, now_ms: int) -> tuple[float, float] | None:
        """Return the median and the 99th percentile in milliseconds; None without a recent throttle."""
        self.turn(now_ms)
        counts = self.now if self.before is None else joined((self.now, self.before))
        if not any(counts):
            return None
        return quantile_us(counts, 0.5) / 1000, quantile_us(counts, 0.99) / 1000


class ActiveClient(NamedTuple):
    """The last second of one client, and its throttles if there were any."""

    row: UsageRow
    throttles: Throttles | None


class ClientActivity(Observer):
    """Keeps the last second and the recent throttles of each client (user and client id)."""

    def __init__(self) -> None:
        self._ts_ms = 0
        self._rows: Sequence[UsageRow] = ()
        self._throttles: OrderedDict[tuple[str, str], Throttles] = OrderedDict()

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        self._ts_ms, self._rows = ts_ms, rows

    def on_trace(self, trace: RequestTrace) -> None:
        """See Observer."""
        ms = delayed_ms(trace)
        if ms <= 0:
            return
        key = trace.peer.user, trace.peer.client_id
        now_ms = trace.ended_us // 1000
        throttles = self._throttles.get(key)
        if throttles is None:
            if len(self._throttles) >= MAX_KEYS:
                self._throttles.popitem(last=False)
            throttles = self._throttles[key] = Throttles(now_ms)
        else:
            self._throttles.move_to_end(key)
        throttles.add(ms, now_ms)

    def busiest(self, limit: int, now_ms: int) -> list[ActiveClient]:
        """Return at most `limit` clients of the last second: throttled ones first, then those with most requests."""
        if now_ms - self._ts_ms > WINDOW_MS + FRESH_MS:
            return []
        rows = nlargest(limit, self._rows, key=_rank)
        return [ActiveClient(row, self._throttles.get((row.user, row.client_id))) for row in rows]


def _rank(row: UsageRow) -> tuple[bool, int, int]:
    return row.blocked_ms > 0, row.requests, row.blocked_ms


class ConnectionTimes(Observer):
    """Keeps in `opened_ms` the time at which each open session began, by session id."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.opened_ms: dict[int, int] = {}
        self._now_ms = now_ms

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        self.opened_ms[peer.session_id] = self._now_ms()

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer."""
        self.opened_ms.pop(peer.session_id, None)
