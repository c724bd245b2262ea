"""The parts of the request pool: that of ordinary requests, and that of larger ones.

Rules:
- Requests of more than ordinary size (`ordinary_bytes`) get at most LARGE_PART of the pool, so that they leave a part
  to the others.
- Each request that has begun can end: in each part one request, the first in line when no memory is left, may take
  all that it needs (`PoolPart.first`). An ordinary one takes it from a reserve of `ordinary_bytes`, and a larger one
  exceeds the pool. So the maximum is the pool and one largest request, as in KIP-72; as there, none gets it while no
  byte is left, unless all bytes are reserved for requests, or are the beginnings of requests that wait.
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


class PoolPart:
    """The requests of ordinary size, or the larger ones: those that wait, and the one that may exceed the part."""

    __slots__ = ("first", "is_large", "line")

    def __init__(self, *, is_large: bool) -> None:
        self.is_large = is_large
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
    """Both parts of `pool`, and the size up to which a request is ordinary."""

    __slots__ = ("_pool", "large", "ordinary", "ordinary_bytes")

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self.ordinary = PoolPart(is_large=False)
        self.large = PoolPart(is_large=True)
        self.resize()

    def resize(self) -> None:
        """Follow the size of the pool."""
        size_bytes = self._pool.size_bytes
        self.ordinary_bytes = (
            ORDINARY_BYTES if size_bytes == NO_BOUND else min(ORDINARY_BYTES, size_bytes >> 3)
        )

    def of(self, claim: MemoryClaim) -> PoolPart:
        """Return the part of the claim's request."""
        return self.large if claim.whole_bytes > self.ordinary_bytes else self.ordinary

    def drop_first(self, claim: MemoryClaim) -> None:
        """Let another request exceed the part, if this one could."""
        for part in (self.ordinary, self.large):
            if part.first is claim:
                part.first = None

    def may_take(
        self, part: PoolPart, claim: MemoryClaim, more_bytes: int, reserved_bytes: int
    ) -> bool:
        """Return whether the claim may take `more_bytes` now. If it waits, or no memory is left, and no other request
        is the part's first, it becomes that. `reserved_bytes`: of all claims.
        """
        if part.first is claim:
            return True
        pool = self._pool
        size_bytes, used_bytes = pool.size_bytes, pool.used_bytes
        if size_bytes == NO_BOUND:
            return True
        if part.is_large:
            most_bytes = int(size_bytes * LARGE_PART)
            beyond_bytes = self.ordinary.first_missing_bytes + 1  # while a byte is left
        else:
            most_bytes = size_bytes - self.ordinary_bytes
            beyond_bytes = claim.whole_bytes - claim.reserved_bytes
            used_bytes -= self.large.first_bytes
        fits = used_bytes + more_bytes <= most_bytes
        if (
            part.first is None
            and (not fits or part.line.places)
            and (
                used_bytes - pool.carried_bytes + beyond_bytes <= size_bytes
                or pool.used_bytes == pool.carried_bytes + reserved_bytes
            )
        ):
            part.first = claim
            return True
        return fits
