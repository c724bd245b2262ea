"""Every byte held is counted here, and given back exactly once (after KIP-72's SimpleMemoryPool).

Held means: read from one socket and not yet written to the other: partial headers, frames kept whole,
unsent remainders, replies waiting for their turn. What streams through the scratch buffer is not held.

Rules:
- `try_allocate` refuses rather than waits. What is in our hands already is counted by `force_allocate`.
- The pool never waits and wakes nobody by itself: while it is dry, each release calls `on_release`.
- An outage begins with the first that goes without and ends when something is left after those who wait
  were served; one that still runs counts (in Kafka it is seen only when it is over).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NO_BOUND = -1
UNBOUNDED_BYTES = 2**63 - 1
"""What an unbounded pool has left, as Kafka's MemoryPool.NONE says."""


class MemoryPool:
    """Counts bytes against a size; NO_BOUND: nothing is refused, and all is counted the same.

    Non-strict, as the broker's own pool is: while anything is left, one request may overdraw, so that a
    large one can always get in (bound: size + largest - 1). `max_single_bytes` is the largest request.
    `carried_bytes` are those of the used that are beginnings of requests, which wait themselves.
    `pressed` says that `near_limit_bytes` are used or more: whoever reads has to look how much there is.
    """

    __slots__ = (
        "_dry_since_ms",
        "_limit_bytes",
        "_now_ms",
        "_past_ms",
        "carried_bytes",
        "is_waited_for",
        "max_single_bytes",
        "near_limit",
        "near_limit_bytes",
        "on_depleted",
        "on_recovered",
        "on_release",
        "peak_bytes",
        "strict",
        "used_bytes",
    )

    def __init__(
        self,
        size_bytes: int = NO_BOUND,
        max_single_bytes: int | None = None,
        *,
        strict: bool = False,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.strict = strict
        self.used_bytes = 0
        self.carried_bytes = 0
        self.is_waited_for = False  # somebody needs more than is left: the outage goes on
        self.peak_bytes = 0
        self.near_limit = False
        self.near_limit_bytes = UNBOUNDED_BYTES
        self.on_release: Callable[[], None] | None = None
        self.on_depleted: Callable[[], None] | None = None
        self.on_recovered: Callable[[int], None] | None = None
        self._now_ms = now_ms
        self._past_ms = 0
        self._dry_since_ms: int | None = None
        self._limit(size_bytes, max_single_bytes)

    # -- taking and giving back ------------------------------------------------------------------

    def try_allocate(self, size_bytes: int) -> bool:
        """Take `size_bytes`, or refuse because nothing is left (strict: not so much).

        Raises ValueError for less than 1 or more than `max_single_bytes`: that is no lack of memory.
        """
        if not 1 <= size_bytes <= self.max_single_bytes:
            raise ValueError(f"{size_bytes} bytes (from 1 to {self.max_single_bytes} may be)")
        least = size_bytes if self.strict else 1
        if self._limit_bytes - self.used_bytes < least:
            self.refuse()
            return False
        self.force_allocate(size_bytes)
        self._end_outage()
        return True

    def force_allocate(self, size_bytes: int) -> None:
        """Take `size_bytes` that are already in our hands; they cannot be refused any more."""
        used = self.used_bytes = self.used_bytes + size_bytes
        self.peak_bytes = max(self.peak_bytes, used)
        if used >= self.near_limit_bytes:
            self.near_limit = True

    def release(self, size_bytes: int) -> None:
        """Give back what was taken. Raises ValueError when it was not: the pool would grow by itself."""
        if not 0 <= size_bytes <= self.used_bytes:
            raise ValueError(f"released {size_bytes} of {self.used_bytes} bytes held")
        used = self.used_bytes = self.used_bytes - size_bytes
        if self.near_limit:
            self.near_limit = used >= self.near_limit_bytes
        if self._dry_since_ms is not None:
            self._serve()

    def refuse(self) -> None:
        """Somebody goes without: an outage begins, unless one runs."""
        if self._dry_since_ms is None:
            self._dry_since_ms = self._now_ms()
            if self.on_depleted is not None:
                self.on_depleted()

    def resize(self, size_bytes: int, max_single_bytes: int | None = None) -> None:
        """Another size from now on. What is held stays; with less, nothing is granted until enough is back."""
        self._limit(size_bytes, max_single_bytes)
        if self._dry_since_ms is not None:
            self._serve()

    # -- what it says ----------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """The size, or NO_BOUND."""
        return NO_BOUND if self._limit_bytes == UNBOUNDED_BYTES else self._limit_bytes

    def available_memory(self) -> int:
        """Bytes left: negative after an overdraft, UNBOUNDED_BYTES without bound."""
        limit = self._limit_bytes
        return limit if limit == UNBOUNDED_BYTES else limit - self.used_bytes

    def is_out_of_memory(self) -> bool:
        """Whether nothing is left."""
        return self.used_bytes >= self._limit_bytes

    def is_low(self) -> bool:
        """Whether less than a tenth is left, but something: then nobody may be last again and again."""
        limit = self._limit_bytes
        return 0 < limit - self.used_bytes < limit / 10

    @property
    def is_depleted(self) -> bool:
        """Whether an outage runs."""
        return self._dry_since_ms is not None

    def depleted_ms(self, now_ms: int) -> int:
        """How long, in all, somebody has gone without, until now (MemoryPoolDepletedTimeTotal).

        What two such figures differ by, over the time between, is MemoryPoolAvgDepletedPercent.
        """
        running_ms = 0 if self._dry_since_ms is None else now_ms - self._dry_since_ms
        return self._past_ms + running_ms

    def press_at(self, spare_bytes: int, max_bytes: int = UNBOUNDED_BYTES) -> None:
        """Be `pressed` when less than `spare_bytes` are left, or `max_bytes` are used."""
        self.near_limit_bytes = max(0, min(self._limit_bytes - spare_bytes + 1, max_bytes))
        if self._limit_bytes == UNBOUNDED_BYTES:
            self.near_limit_bytes = max_bytes
        self.near_limit = self.used_bytes >= self.near_limit_bytes

    # -- inside ----------------------------------------------------------------------------------

    def _limit(self, size_bytes: int, max_single_bytes: int | None) -> None:
        limit = UNBOUNDED_BYTES if size_bytes == NO_BOUND else size_bytes
        most = limit if max_single_bytes is None else max_single_bytes
        if limit < 1 or not 1 <= most <= limit:
            raise ValueError(f"a pool of {size_bytes} bytes for requests of up to {most}")
        self._limit_bytes = limit
        self.max_single_bytes = most

    def _serve(self) -> None:
        if self.on_release is not None:
            self.on_release()
        if self.used_bytes < self._limit_bytes and not self.is_waited_for:
            self._end_outage()

    def _end_outage(self) -> None:
        since_ms = self._dry_since_ms
        if since_ms is not None:
            self._dry_since_ms = None
            lasted_ms = self._now_ms() - since_ms
            self._past_ms += lasted_ms
            if self.on_recovered is not None:
                self.on_recovered(lasted_ms)
