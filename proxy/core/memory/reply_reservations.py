"""Reserves memory for replies that are buffered whole, before they are read; replies that do not fit are queued.

Rules:
- A reply that must be rewritten after its first part is buffered whole, and while it is rewritten two copies exist.
  Memory for both is reserved in the reply pool as soon as the reply's size is known.
- Such replies may fill the pool and RESERVE_BYTES more. Clients that read nothing can fill only the pool, because reads
  get smaller as it fills. So a reply of up to half of RESERVE_BYTES always gets memory, however many clients are slow.
- A reply that does not fit waits, and its broker is not read. Each release serves the queue in order.
- Up to SMALL_BYTES are counted as they arrive, because that is no more than a streamed reply costs.
- While a reply waits, a client that reads less than the minimum rate for STUCK_MS is closed, the largest user of
  memory first, until the reply fits. One timer runs while the queue is not empty; a reply sets none.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from proxy.core.memory.pool import NO_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.slow_clients import ReadLimits
    from proxy.core.purgatory.timers import Timer, Timers

RESERVE_BYTES = 8 << 20
"""The memory for replies that are buffered whole, in addition to the pool."""
MAX_REPLY_BYTES = 256 << 20
"""The maximum size of a reply that is buffered whole; `ReplyReservations.max_bytes` limits it, too."""
SMALL_BYTES = 64 << 10
STUCK_MS = 10_000
"""How long a client may stall while a reply waits for the memory that its unsent replies use."""


class ReplyClaim(Protocol):
    """A reply that is buffered whole. `counted_bytes` are reserved for it; a grant adds to them."""

    @property
    def counted_bytes(self) -> int: ...
    def on_memory_refused(self) -> None: ...
    def on_memory_granted(self, more_bytes: int, *, waited: bool) -> None: ...
    def on_wait_over(self) -> None: ...


class Outbox(Protocol):
    """A client's channel: the reply bytes that are buffered for it, and those of them it has taken so far."""

    unsent_bytes: int
    sent_bytes: int


class ReplyReader(Protocol):
    """A session whose client may be slow to read its replies."""

    @property
    def client(self) -> Outbox: ...
    def end_stuck(self, now_ms: int) -> None: ...


class ReplyRoom(Protocol):
    """The state that all reply claims share: the clock, the limits, and the sessions."""

    @property
    def now_ms(self) -> int: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def slow_client_limits(self) -> ReadLimits: ...
    @property
    def sessions(self) -> Iterable[ReplyReader]: ...


class ReplyReservations:
    """Grants memory of the reply pool. `len` returns how many replies wait."""

    __slots__ = ("_line", "_marks", "_pool", "_room", "_timer")

    def __init__(self, room: ReplyRoom, pool: MemoryPool) -> None:
        self._room = room
        self._pool = pool
        self._line: OrderedDict[ReplyClaim, int] = OrderedDict()
        self._timer: Timer | None = None
        self._marks: dict[
            ReplyReader, int
        ] = {}  # bytes that each client had taken at the last check
        pool.on_release = self.serve

    def __len__(self) -> int:
        return len(self._line)

    @property
    def max_bytes(self) -> int:
        """The most bytes one buffered reply may reserve, its rewritten copy included."""
        size_bytes = self._pool.size_bytes
        max_bytes = 2 * MAX_REPLY_BYTES
        return max_bytes if size_bytes == NO_BOUND else min(size_bytes + RESERVE_BYTES, max_bytes)

    def try_reserve(self, claim: ReplyClaim, size_bytes: int) -> bool:
        """Reserve `size_bytes` for a reply, less the bytes already counted for it.

        False: its broker is muted, and the reply is queued.
        """
        more_bytes = max(size_bytes - claim.counted_bytes, 0)
        if self._line or not self._fits(more_bytes):
            self._line[claim] = size_bytes
            claim.on_memory_refused()
            self._mark_depleted()
            return False
        self._grant(claim, more_bytes, waited=False)
        return True

    def leave(self, claim: ReplyClaim) -> None:
        """Remove a reply that needs no more memory from the queue."""
        if self._line.pop(claim, None) is not None:
            claim.on_wait_over()
            self._pool.release(0)  # while a reply waits, each release serves the queue

    def serve(self) -> None:
        """Grant memory to queued replies that fit, in order. Called on each release and after a resize."""
        line = self._line
        while line:
            claim, size_bytes = next(iter(line.items()))
            more_bytes = max(size_bytes - claim.counted_bytes, 0)
            if not self._fits(more_bytes):
                break
            del line[claim]
            self._grant(claim, more_bytes, waited=True)
        self._mark_depleted()

    # -- inside ----------------------------------------------------------------------------------

    def _fits(self, more_bytes: int) -> bool:
        return more_bytes <= self._pool.available_memory() + RESERVE_BYTES

    def _grant(self, claim: ReplyClaim, more_bytes: int, *, waited: bool) -> None:
        self._pool.force_allocate(more_bytes)
        claim.on_memory_granted(more_bytes, waited=waited)

    def _mark_depleted(self) -> None:
        """While replies are queued, mark the pool as depleted, so that each release serves them, and run the timer."""
        self._pool.is_waited_for = bool(self._line)
        if self._line:
            self._pool.refuse()
            if self._timer is None:
                self._mark()
                self._arm()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._marks = {}

    def _mark(self) -> None:
        self._marks = {
            reader: reader.client.sent_bytes
            for reader in self._room.sessions
            if reader.client.unsent_bytes
        }

    def _arm(self) -> None:
        self._timer = self._room.timers.arm(self._room.now_ms + STUCK_MS, self._end_stalled)

    def _end_stalled(self, now_ms: int) -> None:
        """Close stalled clients, the largest user of memory first, until no reply waits."""
        self._timer = None
        min_bytes = self._room.slow_client_limits.bytes_per_second * STUCK_MS // 1000
        stuck = [
            reader
            for reader, mark in self._marks.items()
            if reader.client.unsent_bytes and reader.client.sent_bytes - mark <= min_bytes
        ]
        stuck.sort(key=lambda reader: reader.client.unsent_bytes)
        while stuck and self._line:
            stuck.pop().end_stuck(now_ms)  # which serves the queue
        self._mark_depleted()
