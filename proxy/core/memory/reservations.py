"""Reserves memory for requests that are buffered whole, and queues the clients for whom none is left.

Rules:
- A frame that is buffered whole reserves its size once, when that is known and before its body is read. If refused,
  its client is muted (OUT_OF_MEMORY), keeps the bytes already read in its `carry`, and is queued.
- First come, first served. A release serves the queue at once: it reserves the memory for the waiting client there,
  and the session continues in its own turn, because the release may happen during another session's read.
- Every client is read up to the size of its request, even if no memory is left (see `read_limits`), so that there is
  one queue. When the number of requests is at its limit, a client is queued with its bytes unprocessed. Such clients
  are called one by one, because their sizes are unknown; until a called client is done, no other overtakes it.
- A client with a reservation, or inside a frame that streams, is never muted for memory.
- If all used bytes are beginnings of queued requests, the first in the queue is admitted despite the limit, because
  no other bytes would ever be released.
- Clients of a (user, address) over its share of the pool wait in a queue of their own. With a share of 1 (the default
  behind a loopback address), WAITING_SHARE applies instead while clients of another pair wait.
- While clients wait, requests of a pair over its share must arrive sooner (`claim.hurry`), checked once a second.
- The head of a request reserves memory as a body does, once it is longer than any ordinary head.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from proxy.core.memory.claim import Share, hurry
from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.slow_clients import HASTY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.memory.claim import Claimant, MemoryClaim, MemoryRoom
    from proxy.core.memory.pool import MemoryPool

    Line = OrderedDict[MemoryClaim, int]
    """Claims in order of arrival, with the bytes that each needs (0: its request is not processed yet)."""

    Pair = tuple[str, str]
    """User and address."""

WAITING_SHARE = 0.25
"""The part of the pool that one pair may use while others wait, if its share is otherwise the whole pool."""
HEAD_RESERVE_BYTES = 64 << 10
"""The maximum size of a request head (`proxy.core.session.request_stream`)."""


class Reservations:
    """Grants memory of `pool`. `requests` counts the requests that Sluice holds: frames that are being buffered,
    requests that a policy holds, and one for each broker that does not read the bytes sent to it.
    `max_requests` limits their number (queued.max.requests); NO_BOUND: only the bytes are limited.
    `unread_bytes` is set by the shell and returns how many bytes of a client are unread in the kernel's buffer.
    """

    def __init__(
        self, pool: MemoryPool, max_requests: int = NO_BOUND, max_share: float = 1.0
    ) -> None:
        self.pool = pool
        self.max_requests = max_requests
        self.max_share = max_share
        self.requests = 0
        self.unread_bytes: Callable[[Claimant], int] | None = None
        self._line: Line = OrderedDict()
        self._called: MemoryClaim | None = None  # it has its turn, unprocessed before
        self._shares: dict[Pair, Share] = {}
        self._aside: dict[Share, None] = {}  # shares that have a queue of their own
        self._freed: list[Share] = []
        self._pairs: dict[Pair, int] = {}  # how many of each are in the main queue
        self._pair_of: dict[MemoryClaim, Pair] = {}
        self._room: MemoryRoom | None = None  # while the timer of `_look_at_holders` runs
        pool.on_release = self.serve

    def __len__(self) -> int:
        """Return how many claims wait."""
        return len(self._line) + sum(len(share.line) for share in self._shares.values())

    @property
    def is_contended(self) -> bool:
        """Whether requests wait for memory, or too many are held."""
        if self._line or self._aside or self._called:
            return True
        return self.max_requests != NO_BOUND and self.requests >= self.max_requests

    def is_closed(self) -> bool:
        """Return whether no new request may be processed: too many are held, or others wait."""
        if self.max_requests == NO_BOUND:
            return False
        return bool(self._line) or self._called is not None or self._has_too_many()

    # -- one session -----------------------------------------------------------------------------

    def reserve(self, claim: MemoryClaim, whole_bytes: int) -> bool:
        """Reserve memory for the next frame, which is buffered whole; False: the client is muted and queued."""
        if claim.reserved_bytes:
            return True  # granted while it waited
        share = self._share_of(claim)
        if share is not None and self._is_over(share):
            self._aside[share] = None
            self._stand(claim, whole_bytes, share.line)
            return False
        first = claim is self._called
        if self._line and not first:
            self.serve()
        passes = not first and bool(self._line or self._called)
        if passes or self._has_too_many() or not self._try_take(whole_bytes):
            self._stand(claim, whole_bytes, self._line)
            self._line.move_to_end(claim, last=not first)
            self._look_dry()
            return False
        self._book(claim, whole_bytes, share)
        if first:  # its turn is over: its next request is queued after the others
            self._called = None
            self.serve()
        return True

    def reserve_head(self, claim: MemoryClaim) -> bool:
        """Reserve memory for a head longer than an ordinary one; False: the client is muted and queued."""
        if not claim.head_reserved:
            size_bytes = min(HEAD_RESERVE_BYTES, self.pool.max_single_bytes)
            claim.head_reserved = self.reserve(claim, size_bytes)
        return claim.head_reserved

    def wait(self, claim: MemoryClaim) -> None:
        """Queue a client that may not begin a request; bytes read from it are kept until it is called."""
        if claim.line is None:
            self._stand(claim, 0, self._line)
            self._look_dry()

    def heard(self, claim: MemoryClaim) -> None:
        """Record that the session had its turn. If its claim was called, call the next one."""
        if claim is self._called:
            self._called = None
            if claim.line is None:
                claim.short_since_us = 0
            self.serve()

    def park(self, claim: MemoryClaim) -> None:
        """Count a request that a policy holds."""
        if not claim.holds:
            claim.holds = True
            self.requests += 1

    def unpark(self, claim: MemoryClaim) -> None:
        """Count off a request that no policy holds any more, unless its frame is buffered and still counts."""
        if claim.holds and not claim.reserved_bytes:
            claim.holds = False
            self.one_less()

    def hand_over(self, claim: MemoryClaim) -> int:
        """Return the size of a whole frame that is forwarded. The caller must release these bytes to the pool.

        After it has disposed of them it must call `serve_freed`; earlier, one place could be granted twice.
        """
        size_bytes, claim.reserved_bytes = claim.reserved_bytes, 0
        share, claim.share = claim.share, None
        claim.head_reserved = False
        if claim.holds:
            claim.holds = False
            self.requests -= 1
        if share is not None:
            share.used_bytes -= size_bytes
            share.holders.pop(claim, None)
            self._freed.append(share)
        return size_bytes

    def serve_freed(self) -> None:
        """Serve the claims that wait for a share, or a place, that `hand_over` has freed."""
        while self._freed:
            self._serve_share(self._freed.pop())
        if self._line:
            self.serve()

    def give_back(self, claim: MemoryClaim) -> None:
        """Release the memory of a frame that is processed, or will never be complete."""
        size_bytes = self.hand_over(claim)
        if size_bytes:
            self.pool.release(size_bytes)
        self.serve_freed()

    def leave(self, claim: MemoryClaim) -> None:
        """Remove the claim of a closed session from its queue, and release its memory."""
        line, claim.line = claim.line, None
        if line is not None and line.pop(claim, -1) >= 0 and line is self._line:
            self._uncount(claim)
            if self._aside:
                self.serve()
        self.give_back(claim)
        self.heard(claim)

    # -- all sessions ----------------------------------------------------------------------------

    def one_more(self) -> None:
        """Count one more held request."""
        self.requests += 1

    def one_less(self) -> None:
        """Count one held request less, and serve the queue."""
        self.requests -= 1
        if self._line:
            self.serve()

    def look_again(self) -> None:
        """Serve all queues after the pool, and so each share, was resized."""
        self.serve()
        for share in tuple(self._shares.values()):
            self._serve_share(share)

    def serve(self) -> None:
        """Grant free memory to the queued claims, in order. Called on each release."""
        line = self._line
        # no claim overtakes the called one, whose size is not known yet
        while line and self._called is None and self._may_grant():
            claim, whole_bytes = next(iter(line.items()))
            del line[claim]
            self._uncount(claim)
            claim.line = None
            if not whole_bytes:
                self._call(claim)
                continue
            share = self._share_of(claim)
            if share is not None and self._is_over(share):
                claim.line = share.line
                share.line[claim] = whole_bytes
                self._aside[share] = None
                continue
            self._grant(claim, whole_bytes, share)
            claim.owner.on_memory_granted()
        for share in tuple(self._aside):
            self._serve_share(share)
        self._look_dry()

    # -- inside ----------------------------------------------------------------------------------

    def _has_too_many(self) -> bool:
        return self.max_requests != NO_BOUND and self.requests >= self.max_requests

    def _may_grant(self) -> bool:
        pool = self.pool
        if self._has_too_many():
            return False
        return not pool.is_out_of_memory() or pool.used_bytes == pool.carried_bytes

    def _call(self, claim: MemoryClaim) -> None:
        # its turn comes before any client is read; a client that is muted for another reason has none
        claim.owner.on_memory_granted()
        if claim.owner.paced:
            self._called = claim
        else:
            claim.short_since_us = 0

    def _stand(self, claim: MemoryClaim, whole_bytes: int, line: Line) -> None:
        claim.stand_in(line, whole_bytes)
        if line is self._line:
            self._count(claim)
            if self._room is None:
                self._room = claim.room
                claim.room.timers.arm(claim.room.now_ms + HASTY_MS, self._look_at_holders)
        if claim is not self._called:
            claim.refuse()
        claim.owner.on_memory_refused()

    def _count(self, claim: MemoryClaim) -> None:
        """Count the claim among those of its pair in the main queue."""
        pair = self._pair_of[claim] = (claim.owner.peer.user, claim.owner.peer.host)
        self._pairs[pair] = self._pairs.get(pair, 0) + 1

    def _uncount(self, claim: MemoryClaim) -> None:
        pair = self._pair_of.pop(claim)
        self._pairs[pair] -= 1
        if not self._pairs[pair]:
            del self._pairs[pair]

    def _others_wait(self, share: Share) -> bool:
        """Return whether clients of another pair are in the main queue."""
        return len(self._pairs) > (share.pair in self._pairs)

    def _look_at_holders(self, now_ms: int) -> None:
        """End slow requests of pairs that are over their share; called once a second while claims are queued."""
        room, self._room = self._room, None
        if not self._line or room is None:
            return
        for share in tuple(self._shares.values()):
            if self._is_beyond(share):
                for claim in hurry(tuple(share.holders), room.slow_client_limits, now_ms):
                    if not (self._is_beyond(share) and self._others_wait(share)):
                        break
                    claim.end_slow(now_ms)
        if self._line and self._room is None:
            self._room = room
            room.timers.arm(now_ms + HASTY_MS, self._look_at_holders)

    def _look_dry(self) -> None:
        """Mark the pool as depleted while claims wait for memory, so that each release serves the queue."""
        if self._line and self.pool.is_out_of_memory():
            self.pool.refuse()

    def _try_take(self, whole_bytes: int) -> bool:
        pool = self.pool
        if pool.is_out_of_memory() and pool.used_bytes == pool.carried_bytes:
            pool.force_allocate(whole_bytes)
            return True
        return pool.try_allocate(whole_bytes)

    def _grant(self, claim: MemoryClaim, whole_bytes: int, share: Share | None) -> None:
        """Grant memory to a queued claim. `try_allocate` would end the outage before the queue is empty."""
        self.pool.force_allocate(whole_bytes)
        self._book(claim, whole_bytes, share)

    def _book(self, claim: MemoryClaim, whole_bytes: int, share: Share | None) -> None:
        claim.reserved_bytes = whole_bytes
        claim.begin(claim.room.now_ms)
        claim.holds = True
        self.requests += 1
        if share is None and self.pool.size_bytes != NO_BOUND:
            pair = (claim.owner.peer.user, claim.owner.peer.host)
            share = self._shares[pair] = Share(pair)
        if share is not None:
            claim.share = share
            share.used_bytes += whole_bytes
            share.holders[claim] = None

    def _share_of(self, claim: MemoryClaim) -> Share | None:
        """Return the share of the claim's pair; None when the pair has reserved no bytes."""
        return self._shares.get((claim.owner.peer.user, claim.owner.peer.host))

    def _is_over(self, share: Share) -> bool:
        """Return whether the share may get no more memory now."""
        return self._is_beyond(share) and (self.max_share < 1 or self._others_wait(share))

    def _is_beyond(self, share: Share) -> bool:
        """Return whether the share is used up. As in the pool, one request may overdraw it while any byte is left."""
        size_bytes = self.pool.size_bytes
        part = self.max_share if self.max_share < 1 else WAITING_SHARE
        return size_bytes != NO_BOUND and share.used_bytes >= part * size_bytes

    def _serve_share(self, share: Share) -> None:
        """Serve the claims that wait for this share; if others wait for the pool, they join the main queue."""
        while share.line and not self._is_over(share):
            claim, whole_bytes = share.line.popitem(last=False)
            if self._line or not self._may_grant():
                claim.line = self._line
                self._line[claim] = whole_bytes
                self._count(claim)
                self._look_dry()
            else:
                claim.line = None
                self._grant(claim, whole_bytes, share)
                claim.owner.on_memory_granted()
        if not share.line:
            self._aside.pop(share, None)
        if not (share.used_bytes or share.line):
            self._shares.pop(share.pair, None)
