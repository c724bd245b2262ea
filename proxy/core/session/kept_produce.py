"""The topics and partitions of a tracked Produce, kept so that it can be answered here.

Rules:
- A whole request of up to `frame_heads.MAX_KEPT_BYTES` is kept as it is; of a larger one only its head, or its topics,
  packed. If a policy needs its topics, they are packed as they were read for it: the frame is not walked twice.
- A request that cannot be read, or has too many partitions or tags, passes, and the broker alone answers it.
- A produce is answered with REQUEST_TIMED_OUT for each partition: it is not known whether the broker wrote it.
  A fetch is answered empty, without an error, without a session (see `wire.fetch`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from policies.api import Need
from proxy.core.session import frame_heads
from wire import fetch, produce_partitions, produce_runs
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.header import body_at
from wire.primitives import ELEMENT_BUDGET
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from proxy.core.session.exchange import Exchange, ObservedExchange
    from proxy.core.session.plan import Plan

EMPTY_THROTTLE_MS = 1
"""The throttle time of an empty fetch reply: clients read it as a throttle, not as a broker's fault."""
_HEADER: Final = Need.HEADER
"""A member of an enum is found more slowly."""
_SIZE: Final = Struct(">i")


def keep(
    plan: Plan, buf: bytearray, pos: int, stop: int, steps: int = ELEMENT_BUDGET
) -> bytearray | bytes | None:
    """Return what is kept of the whole Produce frame in buf[pos:stop], for a reply made here.

    None: `keep_tagged` has to read it, because it may have tagged fields, or more than `steps` partitions.
    """
    most = pos + frame_heads.MAX_KEPT_BYTES
    if stop <= most:  # the fast loop does this by itself
        return frame_heads.copy(buf, pos, stop)
    prefix = plan.prefix
    at = pos + frame_heads.REQUEST_BYTES + len(prefix)
    version = buf[pos + 6] << 8 | buf[pos + 7]  # closer at hand than the plan's
    end = produce_runs.single_partition_head_end(buf, at, stop, version)
    if 0 < end <= most - produce_runs.RECORDS_SIZE_BYTES:
        return frame_heads.copy(buf, pos, end + produce_runs.RECORDS_SIZE_BYTES)
    return produce_runs.pack_untagged(buf, at, stop, version, steps * produce_runs.INDEX_BYTES)


def keep_tagged(
    plan: Plan, buf: bytearray, pos: int, stop: int, steps: int = ELEMENT_BUDGET
) -> tuple[bytes | None, int]:
    """Return what is kept of a frame for which `keep` returns None, and what is left of `steps`.

    They are the topics, partitions and tagged fields that may be visited. None: they were not enough, or the frame
    cannot be read; the number is negative then.
    """
    at = pos + frame_heads.REQUEST_BYTES + len(plan.prefix)
    try:
        return produce_partitions.pack_topics(buf, at, stop, plan.api.version, steps)
    except WireError:
        return None, -1


def keep_named(exchange: ObservedExchange) -> bytes | None:
    """Return what is kept of a whole Produce frame whose names were read; None if `keep` has to walk it."""
    try:
        return produce_partitions.pack_refs(exchange.topics)
    except WireError:
        return None


def leave_to_broker(exchange: Exchange) -> None:
    """Remove the deadline of a Produce that cannot be read here: only the broker can answer it."""
    exchange.plan = exchange.plan.waiting(0)
    exchange.kept = None


def on_sent(exchange: ObservedExchange, now_ms: int) -> None:
    """Restart the deadline of a request that is forwarded late: it was held here, or arrived slowly.

    The client's own timeout of a Produce runs all the time, so at most half of its wait restarts now.
    """
    plan = exchange.plan
    since_ms = now_ms - plan.wait_ms // 2 if plan.keeps_partitions else now_ms
    exchange.arrived_ms = max(exchange.arrived_ms, since_ms)


def on_streamed(exchange: ObservedExchange, walker: ProduceWalker, now_ms: int) -> None:
    """Pack the topics of a Produce that was walked, and restart its deadline, because its last byte was forwarded."""
    on_sent(exchange, now_ms)
    if exchange.plan.keeps_partitions:
        exchange.kept = bytes(walker.packed)
        if exchange.plan.hooks.need is _HEADER:
            exchange.head = None  # no policy asked for it


def timed_out_body(exchange: Exchange) -> bytes:
    """Return the body of a reply made in the broker's place. Raises WireError if the kept bytes cannot be read."""
    api = exchange.plan.api
    if api.key == ApiKey.FETCH:
        return fetch.empty_reply(api, EMPTY_THROTTLE_MS)
    body = produce_partitions.error_reply(api, _topics(exchange), ErrorCode.REQUEST_TIMED_OUT)
    joins = exchange.plan.joins
    return body if joins is None else joins(body, 0, len(body))


def _topics(exchange: Exchange) -> produce_partitions.Topics:
    api, kept = exchange.plan.api, exchange.kept
    if isinstance(kept, bytes):
        return produce_partitions.unpack(kept, api.version)
    if isinstance(kept, bytearray):
        at = body_at(kept, 0, len(kept), api.request_header_version)
        if at is None:
            raise WireError("the Produce head is longer than its frame")
        walker = ProduceWalker(api.version)
        walker.feed(kept, at, len(kept))
        if not walker.done and len(kept) == _SIZE.size + _SIZE.unpack_from(kept)[0]:
            raise WireError("the Produce body ends inside a field")
        return walker.topics
    return kept.topics if kept is not None else ()
