"""A model of Kafka's quota rule: clients that use all of one sampled rate.

The rule (KIP-124) is implemented here a second time, as a comparison for Sluice's `channel` enforcement: 11 windows of
one second on whole seconds, the violating request stays recorded, only its own channel is muted, and for one second at
most.
"""

import heapq
from collections import Counter
from typing import Final

from tests.support.quotas.quota_rows import Row

_WINDOWS: Final = 11
_ROUND_TRIP_MS: Final = 4.0


def answered_by_rule(
    row: Row,
    limit: float,
    start_ms: float,
    seconds: float,
    round_trip_ms: float = _ROUND_TRIP_MS,
) -> int:
    """Return how many requests of `row` are answered within `seconds` of `start_ms`, on the proxy's clock.

    A row that reconnects is not covered: its muted connection is gone, so it gets all it asks for.
    """
    ends = start_ms + seconds * 1000
    waiting = [(start_ms + round_trip_ms, place) for place in range(row.connections)]
    heapq.heapify(waiting)
    windows: Counter[int] = Counter()
    answered = 0
    while waiting[0][0] <= ends:
        now_ms, place = heapq.heappop(waiting)
        muted_ms = 0.0
        for _ in range(row.depth):
            windows[int(now_ms // 1000)] += 1
            answered += 1
            muted_ms = max(muted_ms, _delay_ms(windows, limit, now_ms))
        heapq.heappush(waiting, (now_ms + max(muted_ms, round_trip_ms), place))
    return answered


def _delay_ms(windows: Counter[int], limit: float, now_ms: float) -> float:
    newest = int(now_ms // 1000)
    for old in [window for window in windows if window <= newest - _WINDOWS]:
        del windows[old]
    # Counted from the oldest window in use, but at least ten whole ones and the current one.
    span_ms = (_WINDOWS - 1) * 1000 + now_ms % 1000
    observed = windows.total() * 1000 / span_ms
    if observed <= limit:
        return 0
    return min(1000, int((observed - limit) / limit * span_ms + 0.5))
