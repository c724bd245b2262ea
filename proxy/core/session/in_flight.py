"""What requests in flight cost here until the broker replies, counted in the pool of requests.

Rules:
- The first UNCOUNTED requests of a connection cost nothing: they are part of what each connection may use
  (`proxy.config.budget`), and honest clients rarely have more. So an ordinary read pays one comparison.
- With more in flight a session is `crowded`: what came is counted, and what the broker has answered is given back in
  the order in which it came. Neither is done before UNCOUNTED requests have come or gone, so a read that brings one
  request to many others in flight pays a comparison, too; what is not counted yet stays below UNCOUNTED.
- An exchange costs EXCHANGE_BYTES, and what is kept of a produce. A request of which more than KEPT_BYTES are kept
  is counted however few are in flight.
- A crowded client is not read while the pool is used up, or while it has MAX_BYTES in flight itself. It is read
  again when replies have come, or were made here. Whoever is not crowded is read, so that everyone goes on.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange
from proxy.core.session.state import GATHER, UNCOUNTED

if TYPE_CHECKING:
    from proxy.core.session.ending import SessionEnd

CROWDED = -1
"""Instead of UNCOUNTED, in a session that must be counted at the end of this read: any queue is longer."""
EXCHANGE_BYTES = 224
"""An Exchange, the integers that only it has, and its place in the queue; measured, see the tests."""
SWALLOWED_BYTES = 96
"""The same of what remains of a request that was answered here."""
KEPT_BYTES = 1024
"""At most, of nearly every produce (`delayed.MAX_KEPT_BYTES`)."""
KEPT_OBJECT_BYTES = 57
"""What the object costs that keeps them."""
FREE_BYTES = 20 << 10
"""With no more than this, and few requests, a session is not crowded any more."""
MAX_BYTES = 8 << 20
"""Of one session. What is read then is answered here in turns: see `delayed.MAX_ANSWERS`."""
_PIECE = 64


class InFlight:
    """What one crowded session has counted: pieces of [exchanges, bytes], in the order of its queue."""

    __slots__ = ("bytes", "count", "pieces")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.pieces: deque[list[int]] = deque()

    def add(self, count: int, size_bytes: int) -> None:
        """So many came last. Reads of few requests share a piece."""
        self.count += count
        self.bytes += size_bytes
        pieces = self.pieces
        if pieces and pieces[-1][0] < _PIECE:
            pieces[-1][0] += count
            pieces[-1][1] += size_bytes
        else:
            pieces.append([count, size_bytes])

    def add_kept(self, size_bytes: int) -> None:
        """So much more is kept of what came last, or comes next."""
        self.bytes += size_bytes
        self.pieces.append([0, size_bytes])

    def take(self, count: int) -> int:
        """The oldest so many are gone; what they cost (part of a piece: its average)."""
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


def count(s: SessionEnd) -> None:
    """A read has left more in flight than UNCOUNTED: count what it brought, and mute the client if that is too much."""
    flight = s.in_flight or _crowd(s)
    more = len(s.queue) - flight.count
    if more > 0:
        size_bytes = more * EXCHANGE_BYTES
        if s.keeps:
            newest = islice(reversed(s.queue), more)
            try:  # nearly always produces alone
                kept_bytes = sum([len(each.kept) for each in newest])  # type: ignore[union-attr,arg-type,misc] # else as below
            except (AttributeError, TypeError):
                kept_bytes = sum(map(_kept_bytes, islice(reversed(s.queue), more)))
            size_bytes += kept_bytes + more * KEPT_OBJECT_BYTES
        flight.add(more, size_bytes)
        s.engine.request_pool.force_allocate(size_bytes)
    s.uncounted = flight.count + UNCOUNTED
    if _may_be_read(s):
        return
    if s.engine.request_pool.is_out_of_memory():
        s.engine.request_pool.refuse()
    s.unusual_requests = True
    if (
        s.request_left and s.request_mode == GATHER
    ):  # it holds memory, which it must not keep for longer
        s.mute_wanted |= Mute.IN_FLIGHT
    else:
        s.client.mute(Mute.IN_FLIGHT)
        s.engine.schedule(s)


def count_kept(s: SessionEnd, exchange: Exchange) -> None:
    """Something was kept of it in the general path, where a request may have come in many reads."""
    kept_bytes = _kept_bytes(exchange)
    if kept_bytes <= KEPT_BYTES:
        return
    flight = s.in_flight
    if flight is not None and s.queue and s.queue[-1] is exchange and flight.count >= len(s.queue):
        flight.add_kept(kept_bytes)  # it was counted when it began
        s.engine.request_pool.force_allocate(kept_bytes)
    else:
        keeps_more(s)


def keeps_more(s: SessionEnd) -> None:
    """Of a request of this read more is kept than of most: it is counted though few are in flight."""
    s.uncounted = CROWDED


def give_back(s: SessionEnd) -> None:
    """The broker has replied to a crowded session."""
    flight = s.in_flight
    if flight is None:
        return
    left = len(s.queue)
    gone = flight.count - left
    is_muted = s.client.muted & Mute.IN_FLIGHT
    if gone < UNCOUNTED and not is_muted and left > UNCOUNTED // 2:
        return
    if gone > 0:
        s.engine.request_pool.release(flight.take(gone))
        s.uncounted = flight.count + UNCOUNTED
    if left <= UNCOUNTED // 2:
        recount(s)
    elif is_muted and _may_be_read(s):
        s.unmute(Mute.IN_FLIGHT)


def recount(s: SessionEnd) -> None:
    """Look at everything in flight: requests were answered here, or few are left."""
    flight = s.in_flight
    if flight is None:
        return
    fresh = InFlight()
    for each in s.queue:
        if isinstance(each, Exchange):
            fresh.add(1, EXCHANGE_BYTES + KEPT_OBJECT_BYTES * s.keeps + _kept_bytes(each))
        else:
            fresh.add(1, SWALLOWED_BYTES)
    s.in_flight = fresh
    s.uncounted = fresh.count + UNCOUNTED
    s.engine.request_pool.force_allocate(fresh.bytes)
    s.engine.request_pool.release(flight.bytes)
    if fresh.bytes <= FREE_BYTES and fresh.count <= UNCOUNTED:
        forget(s)
    if (s.client.muted | s.mute_wanted) & Mute.IN_FLIGHT and _may_be_read(s):
        s.unmute(Mute.IN_FLIGHT)


def forget(s: SessionEnd) -> None:
    """Give everything back: little is in flight, or the session ends."""
    flight, s.in_flight = s.in_flight, None
    s.uncounted = UNCOUNTED
    if flight is not None:
        s.engine.request_pool.release(flight.bytes)


def _crowd(s: SessionEnd) -> InFlight:
    s.in_flight = flight = InFlight()
    s.uncounted = CROWDED
    return flight


def _may_be_read(s: SessionEnd) -> bool:
    flight = s.in_flight
    if flight is None:
        return True
    max_bytes = MAX_BYTES // 2 if s.client.muted & Mute.IN_FLIGHT else MAX_BYTES
    return flight.bytes <= max_bytes and not s.engine.request_pool.is_out_of_memory()


def _kept_bytes(exchange: object) -> int:
    if not isinstance(exchange, Exchange) or not exchange.plan.keeps:
        return 0
    kept = exchange.kept
    return len(kept) if isinstance(kept, bytes | bytearray) else 0
