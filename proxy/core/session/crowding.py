"""Counts the memory of requests in flight in the pool of requests, and mutes clients that have too much of it.

Rules:
- The first UNCOUNTED requests of a connection cost nothing: they are part of what each connection may use
  (`proxy.config.budget`), and honest clients rarely have more. So an ordinary read pays one comparison.
- With more in flight a session is *crowded*: new requests are counted, and those that the broker has answered are
  released in order. Both happen once for UNCOUNTED requests, so a read that adds one request to many in flight
  costs a comparison, too; fewer than UNCOUNTED requests are uncounted at any time.
- A request of which more than KEPT_BYTES are kept is counted even if few are in flight.
- A crowded client is not read while the pool is used up, or while it has MAX_BYTES in flight itself. It is read
  again when replies have come, or were made here. A client that is not crowded is always read.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.core.session import mutes
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange
from proxy.core.session.in_flight import (
    CROWDED,
    EXCHANGE_BYTES,
    KEPT_BYTES,
    KEPT_OBJECT_BYTES,
    OBSERVED_BYTES,
    SWALLOWED_BYTES,
    UNCOUNTED,
    InFlight,
)

if TYPE_CHECKING:
    from proxy.core.session.link import Link

FREE_BYTES: Final = 20 << 10
"""A session with at most this much in flight, and few requests, is no longer crowded."""
MAX_BYTES: Final = 8 << 20
"""The most that one session may have in flight; at timeout they are answered in turns (`broker_waits.MAX_ANSWERS`)."""


def on_requests(link: Link) -> None:
    """Count the new requests after a read that exceeds the threshold; mute the client if it is over its limit."""
    counted = link.in_flight
    if counted is None:
        counted = link.in_flight = InFlight()
        link.queue.deepen()
    pool = link.shared.request_pool
    more = len(link.queue) - counted.count
    if more > 0:
        size_bytes = _newest_bytes(link, more)
        counted.add(more, size_bytes)
        pool.force_allocate(size_bytes)
    if not _may_be_read(link, counted):
        if pool.is_out_of_memory():
            pool.refuse()
        if link.is_gathering:  # it holds memory, which it must not keep for longer
            mutes.mute_after_request(link, Mute.IN_FLIGHT)
        else:
            mutes.mute_now(link, Mute.IN_FLIGHT)
            link.schedule()
    link.uncounted = counted.threshold


def on_replies(link: Link, counted: InFlight) -> None:
    """Release the memory of answered requests, once they are UNCOUNTED or few requests are left."""
    left = len(link.queue)
    gone = counted.count - left
    is_muted = link.client.muted & Mute.IN_FLIGHT
    is_due = gone >= UNCOUNTED or is_muted or left <= UNCOUNTED // 2
    if gone > 0 and is_due:
        link.shared.request_pool.release(counted.take(gone))
    link.uncounted = counted.threshold
    if left <= UNCOUNTED // 2:
        recount(link)
    elif is_muted and _may_be_read(link, counted):
        mutes.unmute(link, Mute.IN_FLIGHT)


def on_kept(link: Link, exchange: Exchange) -> None:
    """Count the kept bytes of a request of the general path, which may have arrived in many reads."""
    kept_bytes = _kept_bytes(exchange)
    if kept_bytes <= KEPT_BYTES:
        return
    counted, queue = link.in_flight, link.queue
    if counted is not None and queue and queue[-1] is exchange and counted.count >= len(queue):
        counted.add_kept(kept_bytes)  # it was counted when it began
        link.shared.request_pool.force_allocate(kept_bytes)
    else:
        link.uncounted = CROWDED


def recount(link: Link) -> None:
    """Count all requests in flight again: some were answered here, or few are left."""
    counted = link.in_flight
    if counted is None:
        return
    pool, before_bytes = link.shared.request_pool, counted.clear()
    for each in link.queue:
        if isinstance(each, Exchange):
            kept_bytes = KEPT_OBJECT_BYTES * link.plans.keeps_partitions + _kept_bytes(each)
            size_bytes = EXCHANGE_BYTES if type(each) is Exchange else OBSERVED_BYTES
            counted.add(1, size_bytes + kept_bytes)
        else:
            counted.add(1, SWALLOWED_BYTES)
    pool.force_allocate(counted.bytes)
    pool.release(before_bytes)
    if counted.bytes <= FREE_BYTES and counted.count <= UNCOUNTED:
        forget(link)
        mutes.unmute(link, Mute.IN_FLIGHT)
        return
    link.uncounted = counted.threshold
    if _may_be_read(link, counted):
        mutes.unmute(link, Mute.IN_FLIGHT)


def forget(link: Link) -> None:
    """Release all counted memory: little is in flight, or the session ends."""
    counted, link.in_flight = link.in_flight, None
    if counted is not None:
        link.shared.request_pool.release(counted.clear())
    link.uncounted = UNCOUNTED


def _newest_bytes(link: Link, more: int) -> int:
    """Return what the newest `more` requests take."""
    queue = link.queue
    bare = sum([type(each) is Exchange for each in islice(reversed(queue), more)])
    size_bytes = bare * EXCHANGE_BYTES + (more - bare) * OBSERVED_BYTES
    if link.plans.keeps_partitions:
        newest = islice(reversed(queue), more)
        try:  # nearly always produces alone
            kept_bytes = sum([len(each.kept) for each in newest])  # type: ignore[union-attr,arg-type,misc] # else as below
        except (AttributeError, TypeError):
            kept_bytes = sum(map(_kept_bytes, islice(reversed(queue), more)))
        size_bytes += kept_bytes + more * KEPT_OBJECT_BYTES
    return size_bytes


def _may_be_read(link: Link, counted: InFlight) -> bool:
    max_bytes = MAX_BYTES // 2 if link.client.muted & Mute.IN_FLIGHT else MAX_BYTES
    return counted.bytes <= max_bytes and not link.shared.request_pool.is_out_of_memory()


def _kept_bytes(exchange: object) -> int:
    """Return the bytes that are kept of a request until the broker replies."""
    if not isinstance(exchange, Exchange) or not exchange.plan.keeps_partitions:
        return 0
    kept = exchange.kept
    return len(kept) if isinstance(kept, bytes | bytearray) else 0
