"""The shares of the request pool: how much of it each (user, address) has reserved, and may.

Rules:
- Claims of a pair over its share of the pool wait in a line of their own. With a share of 1 (the default behind a
  loopback address), WAITING_SHARE applies instead while clients of another pair wait. The ordinary requests of a pair
  and its larger ones have a share each.
- One request that has begun may exceed each share; those that have begun are first in its line. The one that may
  exceed the pool may exceed its share, too: else two could wait for each other.
- A share is kept while it has bytes, or claims that wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.claim import Share
from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.waiting_line import WaitingLine

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim, Pair
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.pool_part import PoolParts

WAITING_SHARE = 0.25
"""The part of the pool that one pair may use while others wait, if its share is otherwise the whole pool."""


class PairShares:
    """The shares of `pool`, by pair. `max_share` is the part of the pool that one may use.

    `aside` has those with a line of their own; `freed` those of which bytes were released, until they are served.
    """

    __slots__ = ("_pair_of", "_pairs", "_parts", "aside", "by_pair", "freed", "max_share", "pool")

    def __init__(self, pool: MemoryPool, parts: PoolParts, max_share: float) -> None:
        self.pool = pool
        self.max_share = max_share
        self.by_pair: dict[Pair, Share] = {}
        self.aside: dict[Share, None] = {}
        self.freed: list[Share] = []
        self._parts = parts
        self._pairs: dict[Pair, int] = {}  # how many of each wait, not for their share
        self._pair_of: dict[MemoryClaim, Pair] = {}

    def find(self, claim: MemoryClaim) -> Share | None:
        """Return the share of the claim's pair; None when the pair has reserved no bytes."""
        return claim.share or self.by_pair.get(self._pair(claim))

    def of(self, claim: MemoryClaim) -> Share:
        """Return the share of the claim's pair; it is made for the first one."""
        pair = self._pair(claim)
        share = self.by_pair.get(pair)
        if share is None:
            share = self.by_pair[pair] = Share(pair)
        return share

    def line_of(self, share: Share) -> WaitingLine[MemoryClaim]:
        """Return the line of a share in which a claim begins to wait."""
        self.aside[share] = None
        if share.line is None:
            share.line = WaitingLine()
        return share.line

    def is_over(self, share: Share, claim: MemoryClaim) -> bool:
        """Return whether the share is used up for this claim. One request that has begun may exceed it."""
        size_bytes = self.pool.size_bytes
        if size_bytes == NO_BOUND or claim is share.first or self._parts.may_exceed(claim):
            return False
        part = self.max_share if self.max_share < 1 else WAITING_SHARE
        if share.used_bytes < part * size_bytes:
            return False
        if self.max_share >= 1 and not self._others_wait(share):
            return False
        if share.first is None and claim.reserved_bytes:
            share.first = claim
            return False
        return True

    def free(self, share: Share, claim: MemoryClaim, size_bytes: int) -> None:
        """Count off the bytes of a claim that holds none any more."""
        share.used_bytes -= size_bytes
        del share.holders[claim]
        if share.first is claim:
            share.first = None
        self.freed.append(share)

    def close_line(self, share: Share) -> None:
        """Remove the line of a share for which no claim waits any more."""
        share.line = None
        self.aside.pop(share, None)
        self.forget_unused(share)

    def forget_unused(self, share: Share) -> None:
        """Forget a share without a line if it has no bytes."""
        if not share.used_bytes:
            self.by_pair.pop(share.pair, None)

    def on_wait(self, claim: MemoryClaim) -> None:
        """Count the claim among those of its pair that wait, and not for their share."""
        pair = self._pair_of[claim] = self._pair(claim)
        self._pairs[pair] = self._pairs.get(pair, 0) + 1

    def on_wait_over(self, claim: MemoryClaim) -> None:
        """Count it off, if it was counted."""
        pair = self._pair_of.pop(claim, None)
        if pair is not None:
            self._pairs[pair] -= 1
            if not self._pairs[pair]:
                del self._pairs[pair]

    def _pair(self, claim: MemoryClaim) -> Pair:
        peer = claim.owner.peer
        return peer.user, peer.host, claim.whole_bytes > self._parts.ordinary_bytes

    def _others_wait(self, share: Share) -> bool:
        """Return whether clients of another pair wait, and not for their share."""
        return len(self._pairs) > (share.pair in self._pairs)
