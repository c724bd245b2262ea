"""Which request yields its memory to one that waits (rules: `proxy.core.memory.slow_clients`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.slow_clients import yields

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim
    from proxy.core.memory.pair_shares import PairShares


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
            if not (is_over or 0 < timeout_ms <= now_ms - claim.since_ms):
                continue
            if claim.line is None and claim.owner.is_kept_waiting:
                continue  # for its broker
            rest_ms = claim.rest_ms(now_ms)
            if not yields(rest_ms, waiting.left_ms):
                continue
            if claim is first:
                return claim
            if rest_ms > found_ms:
                found, found_ms = claim, rest_ms
    return found
