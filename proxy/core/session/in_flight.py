"""The memory that requests in flight take until the broker replies, counted in the pool of requests.

Rules:
- The first UNCOUNTED requests of a connection cost nothing: they are part of what each connection may use
  (`proxy.config.budget`), and honest clients rarely have more. So an ordinary read pays one comparison.
- With more in flight a session is `crowded`: new requests are counted, and those that the broker has answered are
  released in order. Both happen once for UNCOUNTED requests, so a read that adds one request to many in flight
  costs a comparison, too; fewer than UNCOUNTED requests are uncounted at any time.
- An exchange costs EXCHANGE_BYTES or OBSERVED_BYTES, and the kept bytes of a produce. A request of which more than
  KEPT_BYTES are kept is counted even if few are in flight.
- A crowded client is not read while the pool is used up, or while it has MAX_BYTES in flight itself. It is read
  again when replies have come, or were made here. A client that is not crowded is always read.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange

if TYPE_CHECKING:
    from proxy.core.session.owner import Owner

UNCOUNTED = 16
"""The most requests of a connection that may wait for replies before their memory is counted: deeper than the
pipelines of the usual clients (Java: 5)."""
CROWDED = -1
"""The threshold of a session that must be counted at the end of this read: any queue is longer."""
EXCHANGE_BYTES = 120
"""The size of an Exchange, its integers and its place in the queue; measured in the tests."""
OBSERVED_BYTES = 232
"""The size of an ObservedExchange, its integers and its place in the queue."""
SWALLOWED_BYTES = 96
"""The size of a SwallowedExchange: a request that was answered here."""
KEPT_BYTES = 1024
"""The most bytes that are kept of nearly every produce (`kept_produce.MAX_KEPT_BYTES`)."""
KEPT_OBJECT_BYTES = 57
"""The size of the object that keeps these bytes."""
FREE_BYTES = 20 << 10
"""A session with at most this much in flight, and few requests, is no longer crowded."""
MAX_BYTES = 8 << 20
"""The most that one session may have in flight; at timeout they are answered in turns (`broker_waits.MAX_ANSWERS`)."""
_PIECE = 64


class InFlight:
    """The counted requests of one crowded session: pieces of [exchanges, bytes], in the order of its queue."""

    __slots__ = ("_owner", "bytes", "count", "pieces")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.count = 0
        self.bytes = 0
        self.pieces: deque[list[int]] = deque()

    @property
    def threshold(self) -> int:
        """Return the length of the queue above which it must be counted again."""
        return self.count + UNCOUNTED

    # -- what a session says ---------------------------------------------------------------------

    def on_requests(self) -> None:
        """Count the new requests after a read that exceeds the threshold; mute the client if it is over its limit."""
        owner = self._owner
        queue, pool = owner.queue, owner.shared.request_pool
        more = len(queue) - self.count
        if more > 0:
            bare = sum([type(each) is Exchange for each in islice(reversed(queue), more)])
            size_bytes = bare * EXCHANGE_BYTES + (more - bare) * OBSERVED_BYTES
            if owner.plans.keeps:
                newest = islice(reversed(queue), more)
                try:  # nearly always produces alone
                    kept_bytes = sum([len(each.kept) for each in newest])  # type: ignore[union-attr,arg-type,misc] # else as below
                except (AttributeError, TypeError):
                    kept_bytes = sum(map(kept_bytes_of, islice(reversed(queue), more)))
                size_bytes += kept_bytes + more * KEPT_OBJECT_BYTES
            self.add(more, size_bytes)
            pool.force_allocate(size_bytes)
        if self._may_be_read():
            return
        if pool.is_out_of_memory():
            pool.refuse()
        if owner.is_gathering:  # it holds memory, which it must not keep for longer
            owner.mute_after_request(Mute.IN_FLIGHT)
        else:
            owner.mute_now(Mute.IN_FLIGHT)
            owner.schedule()

    def try_add_kept(self, exchange: Exchange) -> bool:
        """Count what is kept of a request that was counted when it began; return False if it was not."""
        queue = self._owner.queue
        if not queue or queue[-1] is not exchange or self.count < len(queue):
            return False
        kept_bytes = kept_bytes_of(exchange)
        self.bytes += kept_bytes
        self.pieces.append([0, kept_bytes])
        self._owner.shared.request_pool.force_allocate(kept_bytes)
        return True

    def on_replies(self) -> None:
        """Release the memory of answered requests, once they are UNCOUNTED or few requests are left."""
        owner = self._owner
        left = len(owner.queue)
        gone = self.count - left
        is_muted = owner.client.muted & Mute.IN_FLIGHT
        if gone < UNCOUNTED and not is_muted and left > UNCOUNTED // 2:
            return
        if gone > 0:
            owner.shared.request_pool.release(self.take(gone))
        if left <= UNCOUNTED // 2:
            owner.recount_in_flight()
        elif is_muted and self._may_be_read():
            owner.unmute(Mute.IN_FLIGHT)

    def recount(self) -> bool:
        """Count all requests in flight again: some were answered here, or few are left.

        Return whether everything was released.
        """
        owner = self._owner
        pool, before_bytes = owner.shared.request_pool, self.bytes
        self.count = self.bytes = 0
        self.pieces.clear()
        for each in owner.queue:
            if isinstance(each, Exchange):
                kept_bytes = KEPT_OBJECT_BYTES * owner.plans.keeps + kept_bytes_of(each)
                size_bytes = EXCHANGE_BYTES if type(each) is Exchange else OBSERVED_BYTES
                self.add(1, size_bytes + kept_bytes)
            else:
                self.add(1, SWALLOWED_BYTES)
        pool.force_allocate(self.bytes)
        pool.release(before_bytes)
        is_free = self.bytes <= FREE_BYTES and self.count <= UNCOUNTED
        if is_free:
            self.release()
        if is_free or self._may_be_read():
            owner.unmute(Mute.IN_FLIGHT)
        return is_free

    def release(self) -> None:
        """Release all counted memory: little is in flight, or the session ends."""
        size_bytes, self.bytes = self.bytes, 0
        self.count = 0
        self.pieces.clear()
        self._owner.shared.request_pool.release(size_bytes)

    def _may_be_read(self) -> bool:
        max_bytes = MAX_BYTES // 2 if self._owner.client.muted & Mute.IN_FLIGHT else MAX_BYTES
        return self.bytes <= max_bytes and not self._owner.shared.request_pool.is_out_of_memory()

    # -- the pieces ------------------------------------------------------------------------------

    def add(self, count: int, size_bytes: int) -> None:
        """Count the newest `count` requests of `size_bytes`. Reads of few requests share a piece."""
        self.count += count
        self.bytes += size_bytes
        pieces = self.pieces
        if pieces and pieces[-1][0] < _PIECE:
            pieces[-1][0] += count
            pieces[-1][1] += size_bytes
        else:
            pieces.append([count, size_bytes])

    def take(self, count: int) -> int:
        """Forget the oldest `count` requests; return their counted bytes (part of a piece: its average)."""
        self.count -= count
        taken_bytes = 0
        pieces = self.pieces
        while count and pieces:
            piece = pieces[0]
            if piece[0] <= count:
                count -= piece[0]
                taken_bytes += piece[1]
                pieces.popleft()
            else:
                part_bytes = piece[1] * count // piece[0]
                piece[0] -= count
                piece[1] -= part_bytes
                taken_bytes += part_bytes
                count = 0
        self.bytes -= taken_bytes
        return taken_bytes


def kept_bytes_of(exchange: object) -> int:
    """Return the bytes that are kept of a request until the broker replies."""
    if not isinstance(exchange, Exchange) or not exchange.plan.keeps:
        return 0
    kept = exchange.kept
    return len(kept) if isinstance(kept, bytes | bytearray) else 0
