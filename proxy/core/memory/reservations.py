"""Reserves memory for requests that are buffered whole, and places the clients in line for whom none is left.

Rules:
- Memory is reserved for what has arrived, and for a step more: as much again, from MIN_STEP_BYTES to MAX_STEP_BYTES. A
  refused client is muted (OUT_OF_MEMORY), before or inside its request, keeps the bytes already read, and is placed in
  line by the time at which its request is expected to end (`waiting_line`). A release serves the line at once: it
  reserves the memory there, and the session continues in its own turn.
- The pool has parts for ordinary requests, larger ones and slow ones (`pool_part`); a claim of a (user, address) over
  its share of the pool waits in a line of its own (`pair_shares`).
- Every client is read up to the size of its request, even if no memory is left (see `read_sizes`).
- If the number of requests is at its limit, a client waits for admission with its bytes unprocessed. Such clients are
  called one by one, because their sizes are unknown; until a called client is done, no other overtakes it.
- While claims wait, those that arrive much more slowly are ended (`slow_clients`), and those whose clients send next to
  nothing meanwhile wait as slow ones from then on; checked once in SHARE_CHECK_MS.
- The head of a request reserves memory as a body does, once it is longer than any ordinary head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.pair_shares import PairShares
from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.pool_part import PoolParts
from proxy.core.memory.slow_clients import SHARE_CHECK_MS
from proxy.core.memory.slow_holders import move_stalled, slowest_holder
from proxy.core.memory.waiting_line import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.memory.claim import Claimant, MemoryClaim, MemoryRoom, Share
    from proxy.core.memory.pool import MemoryPool

HEAD_RESERVE_BYTES = 64 << 10
"""The maximum size of a request head (`proxy.core.session.request_stream`)."""
MIN_STEP_BYTES = 4 << 10
MAX_STEP_BYTES = 256 << 10


class Reservations:
    """Grants memory of `pool`. `requests` counts the requests in memory: frames that are being buffered,
    requests that a policy holds, and one for each broker that does not read the bytes sent to it.
    `max_requests` limits their number (queued.max.requests); NO_BOUND: only the bytes are limited.
    `unread_bytes` is set by the shell and returns how many bytes of a client are unread in the kernel's buffer.
    """

    def __init__(
        self, pool: MemoryPool, max_requests: int = NO_BOUND, max_share: float = 1.0
    ) -> None:
        self.pool = pool
        self.max_requests = max_requests
        self.requests = 0
        self.reserved_bytes = 0
        self.unread_bytes: Callable[[Claimant], int] | None = None
        self._admission: WaitingLine[MemoryClaim] = WaitingLine()
        self._called: MemoryClaim | None = None  # it has its turn, unprocessed before
        self._parts = PoolParts(pool)
        self._lines = (self._admission, *(part.line for part in self._parts.all))
        self._admission_places = self._admission.places
        places = (part.line.places for part in self._parts.all)
        self._ordinary_places, self._large_places, self._slow_places = places
        self._shares = PairShares(pool, self._parts, max_share)
        self._room: MemoryRoom | None = None  # while the timer of `_end_slow_holders` runs
        pool.on_release = self.serve

    def __len__(self) -> int:
        """Return how many claims wait."""
        shares = sum(len(share.line or ()) for share in self._shares.by_pair.values())
        return sum(map(len, self._lines)) + shares

    @property
    def _waits(self) -> bool:
        """Whether claims wait, and not for their share."""
        return bool(self._admission_places) or self._waits_for_memory

    @property
    def _waits_for_memory(self) -> bool:
        return bool(self._ordinary_places or self._large_places or self._slow_places)

    @property
    def is_contended(self) -> bool:
        """Whether ordinary requests wait for memory, or too many are held."""
        if self._ordinary_places or self._admission_places or self._called:
            return True
        return self.max_requests != NO_BOUND and self.requests >= self.max_requests

    def is_closed(self) -> bool:
        """Return whether no new request may be processed: too many are held, or others wait for that reason."""
        if self.max_requests == NO_BOUND:
            return False
        return bool(self._admission) or self._called is not None or self._has_too_many()

    # -- one session -----------------------------------------------------------------------------

    def reserve(self, claim: MemoryClaim, whole_bytes: int, here_bytes: int) -> bool:
        """Reserve memory for the next frame, which is buffered whole, for its `here_bytes` and a step more.

        False: its client is muted and waits in line.
        """
        if claim.reserved_bytes:
            return True  # granted while it waited
        claim.whole_bytes = whole_bytes
        if not claim.short_since_us:
            claim.begin(claim.room.now_ms)
        first = claim is self._called
        if self.max_requests != NO_BOUND:
            if not first and self.is_closed():
                self.serve()
            if self._has_too_many() if first else self.is_closed():
                self._enqueue(claim, 0, self._admission, here_bytes, ahead=first)
                return False
        step_bytes = (
            whole_bytes if here_bytes >= whole_bytes else _with_step(here_bytes, whole_bytes)
        )
        granted = self._try_take(claim, step_bytes, here_bytes)
        if first:  # its turn is over: its next request waits behind the others
            self._called = None
            self.serve()
        return granted

    def extend(self, claim: MemoryClaim, gathered_bytes: int) -> None:
        """Reserve memory for the next step of a frame that is not complete; if refused, its client is muted."""
        wanted_bytes = _with_step(gathered_bytes, claim.whole_bytes)
        more_bytes = wanted_bytes - claim.reserved_bytes
        if claim.line is None and 2 * (claim.reserved_bytes - gathered_bytes) < (
            wanted_bytes - gathered_bytes
        ):
            self._try_take(claim, more_bytes, 0)

    def top_up(self, claim: MemoryClaim, gathered_bytes: int) -> None:
        """Count bytes that were read beyond the step that was granted, while much memory was left."""
        self._book(claim, gathered_bytes - claim.reserved_bytes)

    def reserve_head(self, claim: MemoryClaim) -> bool:
        """Reserve memory for a head longer than an ordinary one; False: the client is muted and waits."""
        if not claim.head_reserved:
            size_bytes = min(HEAD_RESERVE_BYTES, self.pool.max_single_bytes)
            claim.head_reserved = self.reserve(claim, size_bytes, size_bytes)
        return claim.head_reserved

    def wait(self, claim: MemoryClaim) -> None:
        """Let a client wait that may not begin a request; bytes read from it are kept until it is called."""
        if claim.line is None:
            claim.whole_bytes = 0
            self._enqueue(claim, 0, self._admission)

    def on_probed(self, claim: MemoryClaim) -> None:
        """Move a claim that waits for its first memory, because its first bytes show its rate."""
        if self._parts.place_again(claim):
            self.serve()

    def on_turn_over(self, claim: MemoryClaim) -> None:
        """Record that the session had its turn. If its claim was called, call the next one."""
        if claim is self._called:
            self._called = None
            if claim.line is None:
                claim.short_since_us = 0
            self.serve()

    def count_held(self, claim: MemoryClaim) -> None:
        """Count a held request: a policy holds it."""
        if not claim.is_counted:
            claim.is_counted = True
            self.requests += 1

    def uncount_held(self, claim: MemoryClaim) -> None:
        """Count off a request that no policy holds any longer, unless its frame is buffered and still counts."""
        if claim.is_counted and not claim.reserved_bytes:
            claim.is_counted = False
            self.one_less()

    def hand_over(self, claim: MemoryClaim) -> int:
        """Return the size of a whole frame that is forwarded. The caller must release these bytes to the pool.

        After it has disposed of them it must call `serve_freed`; earlier, one place could be granted twice.
        """
        size_bytes, claim.reserved_bytes = claim.reserved_bytes, 0
        self.reserved_bytes -= size_bytes
        share, claim.share = claim.share, None
        claim.head_reserved = False
        claim.whole_bytes = 0
        if claim.is_counted:
            claim.is_counted = False
            self.requests -= 1
        self._parts.drop_first(claim)
        if share is not None:
            self._shares.free(share, claim, size_bytes)
        return size_bytes

    def serve_freed(self) -> None:
        """Serve the claims that wait for a share, or a place, that `hand_over` has freed."""
        while self._shares.freed:
            share = self._shares.freed.pop()
            if share.line is not None:
                self._serve_share(share)
            else:
                self._shares.forget_unused(share)
        if self._waits:
            self.serve()

    def give_back(self, claim: MemoryClaim) -> None:
        """Release the memory of a frame that is processed, or will never be complete."""
        size_bytes = self.hand_over(claim)
        if size_bytes:
            self.pool.release(size_bytes)
        self.serve_freed()

    def leave(self, claim: MemoryClaim) -> None:
        """Remove the claim of a closed session from its line, and release its memory."""
        if claim.line is not None:
            self._step_out(claim)
            self._mark_depleted()
            if self._shares.aside:
                self.serve()
        self.give_back(claim)
        self.on_turn_over(claim)

    # -- all sessions ----------------------------------------------------------------------------

    def one_more(self) -> None:
        """Count one more held request."""
        self.requests += 1

    def one_less(self) -> None:
        """Count one held request less, and serve those that wait."""
        self.requests -= 1
        if self._waits:
            self.serve()

    def on_resize(self) -> None:
        """Serve all lines after the pool, and so each share, was resized."""
        self._parts.resize()
        self.serve()
        for share in tuple(self._shares.by_pair.values()):
            self._serve_share(share)

    def serve(self) -> None:
        """Grant free memory to the claims in line. Called on each release."""
        for part in self._parts.in_order():
            while (place := part.line.first()) is not None:
                claim = place.claim
                share = self._shares.find(claim)
                if share is not None and self._shares.is_over(share, claim):
                    self._step_out(claim)
                    begun = claim.reserved_bytes > 0
                    claim.wait_in(self._shares.line_of(share), place.size_bytes, ahead=begun)
                elif self._parts.may_take(part, claim, place.size_bytes, self.reserved_bytes):
                    self._grant(claim, place.size_bytes)
                else:
                    break
        # no claim overtakes the called one, whose size is not known yet
        while self._called is None and not self._has_too_many():
            place = self._admission.first()
            if place is None:
                break
            self._step_out(place.claim)
            self._call(place.claim)
        for share in tuple(self._shares.aside):
            self._serve_share(share)
        self._mark_depleted()

    # -- inside ----------------------------------------------------------------------------------

    def _has_too_many(self) -> bool:
        return self.max_requests != NO_BOUND and self.requests >= self.max_requests

    def _call(self, claim: MemoryClaim) -> None:
        # its turn comes before any client is read; a client that is muted for another reason has none
        claim.owner.on_memory_granted()
        if claim.owner.paced:
            self._called = claim
        else:
            claim.short_since_us = 0

    def _try_take(self, claim: MemoryClaim, more_bytes: int, here_bytes: int) -> bool:
        """Reserve `more_bytes` for the claim; False: it waits in line."""
        if self.pool.size_bytes == NO_BOUND:
            self._book(claim, more_bytes)
            return True
        share = self._shares.find(claim)
        if share is not None and self._shares.is_over(share, claim):
            begun = claim.reserved_bytes > 0
            self._enqueue(claim, more_bytes, self._shares.line_of(share), here_bytes, ahead=begun)
            return False
        if self._waits_for_memory or not self._parts.fits_all(more_bytes):
            now_ms = claim.room.now_ms
            rest_ms = claim.rest_ms(now_ms, here_bytes)
            part = self._parts.of(claim, rest_ms)
            waits = part.line.precedes(now_ms + rest_ms) and not self._parts.may_exceed(claim)
            if waits or not self._parts.may_take(part, claim, more_bytes, self.reserved_bytes):
                self._enqueue(claim, more_bytes, part.line, here_bytes)
                return False
        self._book(claim, more_bytes, share)
        return True

    def _enqueue(
        self,
        claim: MemoryClaim,
        size_bytes: int,
        line: WaitingLine[MemoryClaim],
        here_bytes: int = 0,
        *,
        ahead: bool = False,
    ) -> None:
        if not claim.reserved_bytes and claim is not self._called:
            claim.refuse()
        claim.wait_in(line, size_bytes, here_bytes, ahead=ahead)
        if line in self._lines:
            self._on_wait(claim)
        self._mark_depleted()
        claim.owner.on_memory_refused()

    def _on_wait(self, claim: MemoryClaim) -> None:
        """Count the claim among those that wait, and not for their share; slow holders are ended for it."""
        self._shares.on_wait(claim)
        if self._room is None:
            self._room = claim.room
            claim.room.timers.arm(claim.room.now_ms + SHARE_CHECK_MS, self._end_slow_holders)

    def _step_out(self, claim: MemoryClaim) -> None:
        """Remove the claim from its line."""
        claim.leave_line()
        self._shares.on_wait_over(claim)

    def _grant(self, claim: MemoryClaim, more_bytes: int) -> None:
        """Grant memory to a claim in line."""
        self._step_out(claim)
        self._book(claim, more_bytes)
        claim.owner.on_memory_granted()

    def _book(self, claim: MemoryClaim, more_bytes: int, share: Share | None = None) -> None:
        self.pool.force_allocate(more_bytes)
        if claim.reserved_bytes:
            share = claim.share
        else:
            claim.begin(claim.room.now_ms)
            claim.is_counted = True
            self.requests += 1
            if share is None and self.pool.size_bytes != NO_BOUND:
                share = self._shares.of(claim)
            claim.share = share
        claim.reserved_bytes += more_bytes
        self.reserved_bytes += more_bytes
        if share is not None:
            share.used_bytes += more_bytes
            share.holders[claim] = None

    def _serve_share(self, share: Share) -> None:
        """Serve the claims that wait for this share; if there is no memory for them, they join the other claims."""
        line = share.line
        while (
            line is not None
            and (place := line.first()) is not None
            and not self._shares.is_over(share, place.claim)
        ):
            claim, size_bytes = place.claim, place.size_bytes
            part = self._parts.of(claim, claim.left_ms)
            if part.line or not self._parts.may_take(part, claim, size_bytes, self.reserved_bytes):
                claim.wait_in(part.line, size_bytes)
                self._on_wait(claim)
            else:
                self._grant(claim, size_bytes)
        if not line:
            self._shares.close_line(share)
        self._mark_depleted()

    # -- slow holders ----------------------------------------------------------------------------

    def _end_slow_holders(self, now_ms: int) -> None:
        """End a request that arrives too slowly for one that waits; called once in SHARE_CHECK_MS while claims wait."""
        room, self._room = self._room, None
        if room is None:
            return
        move_stalled(self._parts, now_ms)
        for line in self._lines:
            place = line.first()
            if place is not None and now_ms - place.claim.waits_since_ms >= SHARE_CHECK_MS:
                first = self._parts.first_before(line)
                slowest = slowest_holder(self._shares, place.claim, first, now_ms)
                if slowest is not None:
                    line.put_first(place.claim)  # what is released is for this one
                    slowest.end_slow(now_ms, ", while others need its memory")
        if self._waits and self._room is None:
            self._room = room
            room.timers.arm(now_ms + SHARE_CHECK_MS, self._end_slow_holders)

    def _mark_depleted(self) -> None:
        """Let the pool count the time in which claims wait for memory, and serve them on each release."""
        self.pool.is_waited_for = self._waits_for_memory
        if self.pool.is_waited_for:
            self.pool.refuse()
        elif self.pool.is_depleted:
            self.pool.recover()


def _with_step(arrived_bytes: int, whole_bytes: int) -> int:
    """Return how much to reserve for a frame of which so much has arrived: as much again, within limits."""
    step_bytes = min(max(arrived_bytes, MIN_STEP_BYTES), MAX_STEP_BYTES)
    return min(arrived_bytes + step_bytes, whole_bytes)
