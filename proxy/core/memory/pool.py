"""A memory pool that counts bytes in use; each is released exactly once (after KIP-72's SimpleMemoryPool).

Bytes in use were read from one socket and are not yet written to the other: partial headers, buffered frames,
unsent remainders and queued replies. Bytes that stream through the scratch buffer are not counted.

Rules:
- It counts; whether a claim is granted is decided by the reservations, which tell it of a refusal.
- The pool has no queue: while it is depleted, each release calls `on_release`, which serves waiting claims.
- An outage begins with the first refusal. It ends when bytes are left after waiting claims were served.
  A running outage counts as well; Kafka reports an outage only when it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NO_BOUND = -1
UNBOUNDED_BYTES = 2**63 - 1
"""The available bytes of an unbounded pool, as in Kafka's MemoryPool.NONE."""


class MemoryPool:
    """Counts bytes in use against a size; with NO_BOUND no request is refused, but all bytes are counted.

    It may be overdrawn. `max_single_bytes` is the largest request.
    `carried_bytes` are the used bytes that belong to the beginnings of waiting requests.
    `near_limit` is True while `near_limit_bytes` or more are used: then reads must ask how much is left.
    """

    __slots__ = (
        "_depleted_since_ms",
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
        "used_bytes",
    )

    def __init__(
        self,
        size_bytes: int = NO_BOUND,
        max_single_bytes: int | None = None,
        *,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.used_bytes = 0
        self.carried_bytes = 0
        self.is_waited_for = False  # a claim needs more than is left: the outage continues
        self.peak_bytes = 0
        self.near_limit = False
        self.near_limit_bytes = UNBOUNDED_BYTES
        self.on_release: Callable[[], None] | None = None
        self.on_depleted: Callable[[], None] | None = None
        self.on_recovered: Callable[[int], None] | None = None
        self._now_ms = now_ms
        self._past_ms = 0
        self._depleted_since_ms: int | None = None
        self._limit(size_bytes, max_single_bytes)

    # -- taking and giving back ------------------------------------------------------------------

    def force_allocate(self, size_bytes: int) -> None:
        """Take `size_bytes`, which were granted or were already read."""
        used = self.used_bytes = self.used_bytes + size_bytes
        self.peak_bytes = max(self.peak_bytes, used)
        if used >= self.near_limit_bytes:
            self.near_limit = True

    def release(self, size_bytes: int) -> None:
        """Release `size_bytes`. Raises ValueError when they are negative or more than `used_bytes`."""
        if not 0 <= size_bytes <= self.used_bytes:
            raise ValueError(f"released size {size_bytes} is outside 0..{self.used_bytes}")
        used = self.used_bytes = self.used_bytes - size_bytes
        if self.near_limit:
            self.near_limit = used >= self.near_limit_bytes
        if self._depleted_since_ms is not None:
            self._serve()

    def refuse(self) -> None:
        """Record a refused claim: an outage begins, unless one is running."""
        if self._depleted_since_ms is None:
            self._depleted_since_ms = self._now_ms()
            if self.on_depleted is not None:
                self.on_depleted()

    def recover(self) -> None:
        """End the outage, if a byte is left and no claim waits."""
        if self.used_bytes < self._limit_bytes and not self.is_waited_for:
            self._end_outage()

    def resize(self, size_bytes: int, max_single_bytes: int | None = None) -> None:
        """Set another size. Bytes in use stay counted; a smaller pool grants none until enough are released.

        Raises ValueError when the size is less than 1, or `max_single_bytes` is outside 1..`size_bytes`.
        """
        self._limit(size_bytes, max_single_bytes)
        if self._depleted_since_ms is not None:
            self._serve()

    # -- state -----------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes, or NO_BOUND."""
        return NO_BOUND if self._limit_bytes == UNBOUNDED_BYTES else self._limit_bytes

    def available_memory(self) -> int:
        """Return the bytes left: negative after an overdraft, UNBOUNDED_BYTES for an unbounded pool."""
        limit = self._limit_bytes
        return limit if limit == UNBOUNDED_BYTES else limit - self.used_bytes

    def is_out_of_memory(self) -> bool:
        """Return whether no byte is left."""
        return self.used_bytes >= self._limit_bytes

    def is_low(self) -> bool:
        """Return whether less than a tenth is left, but at least one byte: then the order of reads must be fair."""
        limit = self._limit_bytes
        return 0 < limit - self.used_bytes < limit / 10

    @property
    def is_depleted(self) -> bool:
        """Whether an outage is running."""
        return self._depleted_since_ms is not None

    def depleted_ms(self, now_ms: int) -> int:
        """Return the total duration of all outages until now, in ms (MemoryPoolDepletedTimeTotal).

        The difference of two values, divided by the time between, is MemoryPoolAvgDepletedPercent.
        """
        running_ms = 0 if self._depleted_since_ms is None else now_ms - self._depleted_since_ms
        return self._past_ms + running_ms

    def set_near_limit(self, spare_bytes: int, max_bytes: int = UNBOUNDED_BYTES) -> None:
        """Set `near_limit` to be True when less than `spare_bytes` are left, or `max_bytes` are used."""
        self.near_limit_bytes = max(0, min(self._limit_bytes - spare_bytes + 1, max_bytes))
        if self._limit_bytes == UNBOUNDED_BYTES:
            self.near_limit_bytes = max_bytes
        self.near_limit = self.used_bytes >= self.near_limit_bytes

    # -- inside ----------------------------------------------------------------------------------

    def _limit(self, size_bytes: int, max_single_bytes: int | None) -> None:
        limit = UNBOUNDED_BYTES if size_bytes == NO_BOUND else size_bytes
        most = limit if max_single_bytes is None else max_single_bytes
        if limit < 1 or not 1 <= most <= limit:
            raise ValueError(
                f"pool size {limit} is less than 1, or largest request {most} is outside 1..{limit}"
            )
        self._limit_bytes = limit
        self.max_single_bytes = most

    def _serve(self) -> None:
        if self.on_release is not None:
            self.on_release()
        self.recover()

    def _end_outage(self) -> None:
        since_ms = self._depleted_since_ms
        if since_ms is not None:
            self._depleted_since_ms = None
            lasted_ms = self._now_ms() - since_ms
            self._past_ms += lasted_ms
            if self.on_recovered is not None:
                self.on_recovered(lasted_ms)
