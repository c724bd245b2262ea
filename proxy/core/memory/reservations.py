"""Who waits for memory: clients whose next request has to be kept whole, and finds none left.

Rules:
- A frame that is kept whole takes its size when that is known, before its body is read, and once. Whoever
  is refused is muted (OUT_OF_MEMORY) with what was read of the frame in its `carry`, and stands in line.
- First come, first served. A release serves the line at once: memory is taken in its name right there, and
  the rest happens in a turn of the session's own, for a release may lie in the middle of another's read.
- Everybody is read as far as a size, memory or not (see `read_limits`), so that all stand in the one line.
  With a bound of requests whoever finds it reached stands with what it has sent unlooked at: such are
  called one by one, for nobody knows what they will take, and nobody passes one that is called.
- Who holds a reservation is never muted for memory, nor anyone inside a frame that passes.
- If all that is used are beginnings of requests that wait themselves, the first in line gets in all the
  same: nothing else would ever be given back.
- More than its share of the pool for one (user, address): that pair's clients wait among themselves. With a share of 1
  (the default behind a loopback address) that holds, for WAITING_SHARE, while clients of another pair wait.
- While clients wait, requests of a pair that is over its share must come sooner (`claim.hurry`): once a second.
- The head of a request needs memory like a body, once it is longer than any ordinary head.
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
    """Claims in the order they came, and the bytes each wants (0: nobody has looked yet)."""

    Pair = tuple[str, str]
    """User and address."""

WAITING_SHARE = 0.25
"""What one pair may have of the pool while others wait, where it may have all of it otherwise."""
HEAD_RESERVE_BYTES = 64 << 10
"""No head is longer (`proxy.core.session.request_stream`)."""


class Reservations:
    """Grants memory of `pool`. `requests` counts what Sluice itself holds: frames that are being gathered,
    requests that a policy has parked, and for each broker that does not take what is due to it, one.
    `max_requests` bounds them, too (queued.max.requests); NO_BOUND: only the bytes count.
    `unread_bytes`, which the shell gives, says what a client has sent that nobody has read yet.
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
        self._called: MemoryClaim | None = None  # it has its turn now, unlooked at before
        self._shares: dict[Pair, Share] = {}
        self._aside: dict[Share, None] = {}  # shares with a line, while others wait for the pool
        self._freed: list[Share] = []
        self._pairs: dict[Pair, int] = {}  # how many of each stand in the one line
        self._pair_of: dict[MemoryClaim, Pair] = {}
        self._room: MemoryRoom | None = None  # while the holders are to be looked at
        pool.on_release = self.serve

    def __len__(self) -> int:
        """How many wait."""
        return len(self._line) + sum(len(share.line) for share in self._shares.values())

    def is_closed(self) -> bool:
        """Whether no new request is to be looked at: there are too many, or others are to be first."""
        if self.max_requests == NO_BOUND:
            return False
        return bool(self._line) or self._called is not None or self._has_too_many()

    # -- one session -----------------------------------------------------------------------------

    def reserve(self, claim: MemoryClaim, whole_bytes: int) -> bool:
        """Memory for its next frame, which has to be kept whole; False: it stands in line now, muted."""
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
        if first:  # it has what it was called for: its next request stands behind the others
            self._called = None
            self.serve()
        return True

    def reserve_head(self, claim: MemoryClaim) -> bool:
        """Memory for the head of its next request, which is long already; False: it stands in line now, muted."""
        if not claim.head_reserved:
            size_bytes = min(HEAD_RESERVE_BYTES, self.pool.max_single_bytes)
            claim.head_reserved = self.reserve(claim, size_bytes)
        return claim.head_reserved

    def count(self, claim: MemoryClaim, size_bytes: int) -> None:
        """Bytes of a frame kept whole that is exempt (SASL): counted as they come, never refused."""
        claim.reserved_bytes += size_bytes
        self.pool.force_allocate(size_bytes)

    def wait(self, claim: MemoryClaim) -> None:
        """It must not begin a request, and has none: what is read of it now is kept until it is called."""
        if claim.line is None:
            self._stand(claim, 0, self._line)
            self._look_dry()

    def heard(self, claim: MemoryClaim) -> None:
        """Its session had a turn. If that was because it was called, the next one is."""
        if claim is self._called:
            self._called = None
            if claim.line is None:
                claim.short_since_us = 0
            self.serve()

    def park(self, claim: MemoryClaim) -> None:
        """A policy holds a request of it."""
        if not claim.holds:
            claim.holds = True
            self.requests += 1

    def unpark(self, claim: MemoryClaim) -> None:
        """It holds it no more; if its frame is here, that still counts."""
        if claim.holds and not claim.reserved_bytes:
            claim.holds = False
            self.one_less()

    def hand_over(self, claim: MemoryClaim) -> int:
        """The whole frame goes on: its bytes, which are still counted, are the caller's to give back.

        The caller calls `serve_freed` when it has done with them what it does: else a place were given away twice.
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
        """What was handed over is where it belongs: those who wait for its share or its place have their turn."""
        while self._freed:
            self._serve_share(self._freed.pop())
        if self._line:
            self.serve()

    def give_back(self, claim: MemoryClaim) -> None:
        """The whole frame is done with, or will never be whole."""
        size_bytes = self.hand_over(claim)
        if size_bytes:
            self.pool.release(size_bytes)
        self.serve_freed()

    def leave(self, claim: MemoryClaim) -> None:
        """It has gone: it waits no more, and what it had reserved is there for others."""
        line, claim.line = claim.line, None
        if line is not None and line.pop(claim, -1) >= 0 and line is self._line:
            self._uncount(claim)
            if self._aside:
                self.serve()
        self.give_back(claim)
        self.heard(claim)

    # -- everybody -------------------------------------------------------------------------------

    def one_more(self) -> None:
        """A request more is held."""
        self.requests += 1

    def one_less(self) -> None:
        """A request less is held."""
        self.requests -= 1
        if self._line:
            self.serve()

    def look_again(self) -> None:
        """The pool has another size, and so have the shares."""
        self.serve()
        for share in tuple(self._shares.values()):
            self._serve_share(share)

    def serve(self) -> None:
        """Something was given back: grant it to those who wait, in order."""
        line = self._line
        # nobody passes one that is called: what it takes is not known yet
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
        # its turn comes before anybody is read; who is muted for something else as well has none
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
        """It stands in the one line from now on."""
        pair = self._pair_of[claim] = (claim.owner.peer.user, claim.owner.peer.host)
        self._pairs[pair] = self._pairs.get(pair, 0) + 1

    def _uncount(self, claim: MemoryClaim) -> None:
        pair = self._pair_of.pop(claim)
        self._pairs[pair] -= 1
        if not self._pairs[pair]:
            del self._pairs[pair]

    def _others_wait(self, share: Share) -> bool:
        """Whether clients of another pair stand in the one line."""
        return len(self._pairs) > (share.pair in self._pairs)

    def _look_at_holders(self, now_ms: int) -> None:
        """Once a second while there is a line: pairs that are over their share have less time."""
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
        """While somebody waits for memory the pool says so, and each release serves the line."""
        if self._line and self.pool.is_out_of_memory():
            self.pool.refuse()

    def _try_take(self, whole_bytes: int) -> bool:
        pool = self.pool
        if pool.is_out_of_memory() and pool.used_bytes == pool.carried_bytes:
            pool.force_allocate(whole_bytes)
            return True
        return pool.try_allocate(whole_bytes)

    def _grant(self, claim: MemoryClaim, whole_bytes: int, share: Share | None) -> None:
        """In its turn. The outage goes on until the line is empty, so it is no `try_allocate`."""
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
        """What its pair has reserved; None: nothing."""
        return self._shares.get((claim.owner.peer.user, claim.owner.peer.host))

    def _is_over(self, share: Share) -> bool:
        """Whether it may have no more now."""
        return self._is_beyond(share) and (self.max_share < 1 or self._others_wait(share))

    def _is_beyond(self, share: Share) -> bool:
        """Non-strict, as the pool: while anything of it is left, one request gets in."""
        size_bytes = self.pool.size_bytes
        part = self.max_share if self.max_share < 1 else WAITING_SHARE
        return size_bytes != NO_BOUND and share.used_bytes >= part * size_bytes

    def _serve_share(self, share: Share) -> None:
        """Something of it was given back: its own have their turn, behind who waits for the pool."""
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
