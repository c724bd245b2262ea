"""The parts of the request pool: that of ordinary requests, that of larger ones, and that of slow ones.

Rules:
- A request is slow if it is expected to take longer than the read timeout, whatever its size, up to its end. Slow
  requests get at most SLOW_PART of the pool, and those of more than ordinary size (`ordinary_bytes`) at most
  LARGE_PART: ordinary ones find a quarter that no other takes, and larger ones a quarter that no slow one takes.
- Each request that has begun can end: in each part one request, the first in line when no memory is left, may take
  all that it needs (`PoolPart.first`). An ordinary one takes it from a reserve of `ordinary_bytes`; a larger or slow
  one, of which there is one at a time, exceeds the pool, and what it takes counts for no other. So the maximum is the
  pool and one largest request, as in KIP-72; as there, none gets it while no byte is left, unless all bytes are
  reserved for requests, or are the beginnings of requests that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.pool import NO_BOUND
from proxy.core.memory.waiting_line import WaitingLine

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim
    from proxy.core.memory.pool import MemoryPool

ORDINARY_BYTES = 1 << 20
"""A request up to this size is ordinary; in a pool of less than 8 MiB, up to an eighth of it."""
LARGE_PART = 0.75
SLOW_PART = 0.5


class PoolPart:
    """The requests of one kind: those that wait, and the one that may exceed the part."""

    __slots__ = ("first", "line")

    def __init__(self) -> None:
        self.line: WaitingLine[MemoryClaim] = WaitingLine()
        self.first: MemoryClaim | None = None

    @property
    def first_bytes(self) -> int:
        """Return the bytes reserved by the request that may exceed the part."""
        return 0 if self.first is None else self.first.reserved_bytes

    @property
    def first_missing_bytes(self) -> int:
        """Return the bytes that it may still reserve."""
        return 0 if self.first is None else self.first.whole_bytes - self.first.reserved_bytes


class PoolParts:
    """The parts of `pool`, and the size up to which a request is ordinary."""

    __slots__ = ("_pool", "all", "large", "ordinary", "ordinary_bytes", "slow")

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self.ordinary = PoolPart()
        self.large = PoolPart()
        self.slow = PoolPart()
        self.all = (self.ordinary, self.large, self.slow)
        self.resize()

    def resize(self) -> None:
        """Follow the size of the pool."""
        size_bytes = self._pool.size_bytes
        self.ordinary_bytes = (
            ORDINARY_BYTES if size_bytes == NO_BOUND else min(ORDINARY_BYTES, size_bytes >> 3)
        )

    def of(self, claim: MemoryClaim, rest_ms: int) -> PoolPart:
        """Return the part of the claim's request, of which the rest takes so long."""
        room = claim.room
        past_ms = claim.elapsed_ms(room.now_ms) if claim.owner.request_left else 0
        if 0 < room.slow_client_limits.timeout_ms < past_ms + rest_ms:
            return self.slow
        return self.large if claim.whole_bytes > self.ordinary_bytes else self.ordinary

    def place_again(self, claim: MemoryClaim) -> bool:
        """Move a claim that waits, because more is known of its rate; return whether it is slow no longer."""
        line = claim.line
        if line is None:
            return False
        rest_ms = claim.rest_ms(claim.room.now_ms)
        is_slow = line is self.slow.line
        claim.move_to(self.of(claim, rest_ms).line if is_slow else line, rest_ms)
        return claim.line is not line

    def in_order(self) -> tuple[PoolPart, PoolPart, PoolPart]:
        """Return the parts in the order in which they are served: of larger and slow requests, the one that waits for
        longer may become the first.
        """
        large, slow = self.large.line.first(), self.slow.line.first()
        if large is not None and slow is not None and slow.ends_ms < large.ends_ms:
            return self.ordinary, self.slow, self.large
        return self.all

    def first_before(self, line: WaitingLine[MemoryClaim]) -> MemoryClaim | None:
        """Return the request that may exceed the part, in place of those that wait in `line`."""
        if line is self.large.line or line is self.slow.line:
            return self.large.first or self.slow.first
        return self.ordinary.first

    def fits_all(self, more_bytes: int) -> bool:
        """Return whether so much is left that a request of any kind may take `more_bytes`."""
        return self._pool.used_bytes + more_bytes <= self._pool.size_bytes * SLOW_PART

    def may_exceed(self, claim: MemoryClaim) -> bool:
        """Return whether the claim is the one of its part that may take all that it needs."""
        return any(part.first is claim for part in self.all)

    def drop_first(self, claim: MemoryClaim) -> None:
        """Let another request exceed the part, if this one could."""
        for part in self.all:
            if part.first is claim:
                part.first = None

    def may_take(
        self, part: PoolPart, claim: MemoryClaim, more_bytes: int, reserved_bytes: int
    ) -> bool:
        """Return whether the claim may take `more_bytes` now. If it waits, or no memory is left, and no other request
        is the part's first, it becomes that. `reserved_bytes`: of all claims.
        """
        if self.may_exceed(claim):
            if part is self.slow and self.large.first is claim:  # it has become slow
                self.large.first, self.slow.first = None, claim
            return True
        pool = self._pool
        size_bytes, used_bytes = pool.size_bytes, pool.used_bytes
        if size_bytes == NO_BOUND:
            return True
        counted_bytes = used_bytes - self.slow.first_bytes
        if part is self.ordinary:
            counted_bytes -= self.large.first_bytes
            most_bytes = size_bytes - self.ordinary_bytes
            has_first = part.first is not None
            spare_bytes = size_bytes - counted_bytes - (claim.whole_bytes - claim.reserved_bytes)
        else:
            most_bytes = int(size_bytes * (SLOW_PART if part is self.slow else LARGE_PART))
            has_first = self.large.first is not None or self.slow.first is not None
            spare_bytes = size_bytes - used_bytes - self.ordinary.first_missing_bytes - 1
        fits = counted_bytes + more_bytes <= most_bytes
        if (
            not has_first
            and (not fits or part.line.places)
            and (
                spare_bytes + pool.carried_bytes >= 0
                or used_bytes == pool.carried_bytes + reserved_bytes
            )
        ):
            part.first = claim
            return True
        return fits
