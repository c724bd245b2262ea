"""Which request yields its memory to one that waits, and which of those that wait turn out to be slow (rules:
`proxy.core.memory.slow_clients`).

A client may send most of its request at once, and the rest hardly at all. So the rate of the last RECENT_MS counts if
it is lower than the mean one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.slow_clients import SLOWER, START_MS, yields

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim
    from proxy.core.memory.pair_shares import PairShares
    from proxy.core.memory.pool_part import PoolParts

RECENT_MS = 2_000
MAX_JUDGED = 100
"""How many that wait are judged at once: the kernel is asked for each."""
STALLED_MS = 2 * START_MS
"""The one that may exceed the part yields, too, if the rest of it takes longer at its recent rate, and that has become
SLOWER times lower.
"""


def slowest_holder(
    shares: PairShares, waiting: MemoryClaim, first: MemoryClaim | None, now_ms: int
) -> MemoryClaim | None:
    """Return the request that yields to `waiting`: of those over an equal share, or over their time, the one that
    may exceed the part (`first`), whose place it needs; else the slowest.
    """
    timeout_ms = waiting.room.slow_client_limits.timeout_ms
    own = shares.find(waiting)
    fair_bytes = shares.pool.size_bytes / (len(shares.by_pair) + (own is None))
    found: MemoryClaim | None = None
    found_ms = 0
    for share in shares.by_pair.values():
        is_over = share.used_bytes > fair_bytes and share is not own
        for claim in share.holders:
            if claim is waiting or claim.owner.ended or not claim.owner.request_left:
                continue
            if claim.line is None and claim.owner.is_kept_waiting:
                continue  # for its broker
            is_late = 0 < timeout_ms <= claim.elapsed_ms(now_ms)
            if not (is_over or is_late or claim is first):
                continue
            recent_ms = _recent_rest_ms(claim, now_ms)
            mean_ms = claim.rest_ms(now_ms)
            stalls = recent_ms > max(STALLED_MS, SLOWER * mean_ms)
            if not (is_over or is_late or stalls):
                continue
            rest_ms = max(mean_ms, recent_ms)
            if not yields(rest_ms, waiting.left_ms):
                continue
            if claim is first:
                return claim
            if rest_ms > found_ms:
                found, found_ms = claim, rest_ms
    return found


def move_stalled(parts: PoolParts, now_ms: int) -> None:
    """Let those wait as slow ones whose clients have sent next to nothing while they waited; each is judged once."""
    slow = parts.slow
    for part in (parts.ordinary, parts.large):
        waiting = [claim for claim in part.line if not claim.is_judged]
        for claim in waiting[:MAX_JUDGED]:
            if now_ms - claim.waits_since_ms >= RECENT_MS:
                claim.is_judged = True
                rest_ms = claim.shown_rest_ms(now_ms)
                if parts.of(claim, rest_ms) is slow:
                    claim.move_to(slow.line, rest_ms)


def _recent_rest_ms(claim: MemoryClaim, now_ms: int) -> int:
    """Return how long the rest of a request takes at the rate of the last RECENT_MS or more; 0: that is unknown yet."""
    arrived_bytes = claim.arrived_bytes()
    elapsed_ms = now_ms - claim.seen_ms
    if (
        claim.line is not None  # it waits for us
        or claim.seen_ms
        < max(claim.since_ms, now_ms - 2 * RECENT_MS)  # of an earlier request, or not seen lately
        or arrived_bytes < claim.seen_bytes
    ):
        claim.recent_ms = 0
    elif elapsed_ms < RECENT_MS:
        return claim.recent_ms
    else:
        missing_bytes = claim.whole_bytes - arrived_bytes
        claim.recent_ms = missing_bytes * elapsed_ms // max(arrived_bytes - claim.seen_bytes, 1)
    claim.seen_bytes, claim.seen_ms = arrived_bytes, now_ms
    return claim.recent_ms
