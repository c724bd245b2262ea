"""Memory for replies that are kept whole: reserved before they are read, and waited for in a line.

Rules:
- A reply that must be changed behind its first part is kept whole, and while it is changed there are two of it.
  Both are reserved in the pool of replies as soon as the reply's size is known.
- Such replies may fill the pool and OWN_BYTES beyond it. Clients that take nothing fill the pool at most, for reads
  get smaller as it fills. So a reply of up to half of OWN_BYTES always finds its memory, however many clients are slow.
- A reply that finds too little waits: its broker is not read. The line is served in order by each release.
- Up to SMALL_BYTES are counted as they come: that is no more than what a reply that streams costs.
- While a reply waits, a client that takes less than the least rate for STUCK_MS is closed, the largest holder first,
  until there is enough. One timer, while there is a line: nothing per reply.
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

OWN_BYTES = 8 << 20
"""What replies that are kept whole have beyond the pool."""
MAX_REPLY_BYTES = 256 << 20
"""A reply that has to be kept whole may not be larger, nor than all memory that there is for such replies."""
SMALL_BYTES = 64 << 10
STUCK_MS = 10_000
"""How long a client may take nothing while a reply waits for the memory that it holds."""


class ReplyClaim(Protocol):
    """A reply that is kept. `counted_bytes` are taken for it; a grant adds to them."""

    @property
    def counted_bytes(self) -> int: ...
    def on_memory_refused(self) -> None: ...
    def on_memory_granted(self, more_bytes: int, *, waited: bool) -> None: ...
    def on_wait_over(self) -> None: ...


class Outbox(Protocol):
    """A client's channel: the bytes of replies that wait for it, and those of all that it has taken late."""

    unsent_bytes: int
    sent_bytes: int


class Taker(Protocol):
    """A session whose client takes its replies, or does not."""

    @property
    def client(self) -> Outbox: ...
    def end_stuck(self, now_ms: int) -> None: ...


class ReplyRoom(Protocol):
    """What all of them share: the clock, the limits, and the sessions."""

    @property
    def now_ms(self) -> int: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def slow_client_limits(self) -> ReadLimits: ...
    @property
    def takers(self) -> Iterable[Taker]: ...


class ReplyReservations:
    """Grants memory of the reply pool. `len` is how many replies wait."""

    __slots__ = ("_line", "_marks", "_pool", "_room", "_timer")

    def __init__(self, room: ReplyRoom, pool: MemoryPool) -> None:
        self._room = room
        self._pool = pool
        self._line: OrderedDict[ReplyClaim, int] = OrderedDict()
        self._timer: Timer | None = None
        self._marks: dict[Taker, int] = {}  # bytes that each client had taken at the last look
        pool.on_release = self.serve

    def __len__(self) -> int:
        return len(self._line)

    @property
    def max_bytes(self) -> int:
        """What replies that are kept whole may take in all: such a reply, and what it is changed to."""
        size_bytes = self._pool.size_bytes
        max_bytes = 2 * MAX_REPLY_BYTES
        return max_bytes if size_bytes == NO_BOUND else min(size_bytes + OWN_BYTES, max_bytes)

    def try_reserve(self, claim: ReplyClaim, size_bytes: int) -> bool:
        """Take `size_bytes` for a reply, less what is counted for it already.

        False: its broker is muted, and the reply waits in line.
        """
        more_bytes = max(size_bytes - claim.counted_bytes, 0)
        if self._line or not self._fits(more_bytes):
            self._line[claim] = size_bytes
            claim.on_memory_refused()
            self._keep_watch()
            return False
        self._grant(claim, more_bytes, waited=False)
        return True

    def leave(self, claim: ReplyClaim) -> None:
        """The reply needs no more memory."""
        if self._line.pop(claim, None) is not None:
            claim.on_wait_over()
            self._pool.release(0)  # as long as somebody waits, each release serves the line

    def serve(self) -> None:
        """Something was given back, or the pool has another size: grant what fits, in order."""
        line = self._line
        while line:
            claim, size_bytes = next(iter(line.items()))
            more_bytes = max(size_bytes - claim.counted_bytes, 0)
            if not self._fits(more_bytes):
                break
            del line[claim]
            self._grant(claim, more_bytes, waited=True)
        self._keep_watch()

    # -- inside ----------------------------------------------------------------------------------

    def _fits(self, more_bytes: int) -> bool:
        return more_bytes <= self._pool.available_memory() + OWN_BYTES

    def _grant(self, claim: ReplyClaim, more_bytes: int, *, waited: bool) -> None:
        self._pool.force_allocate(more_bytes)
        claim.on_memory_granted(more_bytes, waited=waited)

    def _keep_watch(self) -> None:
        """While there is a line the pool says so, each release serves it, and slow clients are looked at."""
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
            taker: taker.client.sent_bytes
            for taker in self._room.takers
            if taker.client.unsent_bytes
        }

    def _arm(self) -> None:
        self._timer = self._room.timers.arm(self._room.now_ms + STUCK_MS, self._look)

    def _look(self, now_ms: int) -> None:
        """Close clients that hold memory and take none of it, as many as it needs."""
        self._timer = None
        min_bytes = self._room.slow_client_limits.bytes_per_second * STUCK_MS // 1000
        stuck = [
            taker
            for taker, mark in self._marks.items()
            if taker.client.unsent_bytes and taker.client.sent_bytes - mark <= min_bytes
        ]
        stuck.sort(key=lambda taker: taker.client.unsent_bytes)
        while stuck and self._line:
            stuck.pop().end_stuck(now_ms)  # which serves the line
        self._keep_watch()
