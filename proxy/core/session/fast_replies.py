"""The fast path of replies: those that are usual in every way are forwarded as they came.

Rules:
- A reply is settled here, or nothing is done about it: any other takes the general path (`reply_stream`).
- One that is not whole in its read begins here (`stream_usual`), if no policy hears of it and nothing in it may change.
  It continues in `reply_stream.pass_on`. A consumer's replies arrive so: their head, and then the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session import frame_heads, paths, reply_stream
from proxy.core.session.exchange import Exchange, ObservedExchange
from proxy.core.session.local_replies import on_reply
from proxy.core.stats.histogram import BUCKET

if TYPE_CHECKING:
    from proxy.core.session.link import Link


def pass_usual(link: Link, buf: bytearray, pos: int, end: int, now_ms: int) -> None:
    """Pass on the usual replies that buf[pos:end] begins with. They end at `link.settled`, even if this raises."""
    entries, usage, buckets = link.queue.entries, link.usage, BUCKET
    now_us, last = link.shared.now_us, end - frame_heads.REPLY_BYTES
    try:
        while pos <= last and entries:
            size, correlation_id = frame_heads.reply_at(buf, pos)
            exchange: Exchange = entries[0]  # type: ignore[assignment] # others count as diverted
            stop = pos + 4 + size
            if correlation_id != exchange.correlation_id or stop > end or size < 4:
                break
            plan = exchange.plan
            path = plan.reply_path
            if path == paths.PASSES or (
                path == paths.IF_UNTAGGED and plan.untagged_shape.matches(buf, pos, stop)  # type: ignore[union-attr] # it has one
            ):
                if plan.counts_fetched:
                    plan.topics.fetched(buf, pos, stop)  # type: ignore[union-attr] # there is one
                took_us = now_us - exchange.arrived_us
                if took_us < plan.fine_us:
                    plan.upstream[buckets[took_us]] += 1
                    tally = plan.tally
                    if tally is not None:  # as `count_bytes`, without a call
                        tally.request_bytes += 4 + exchange.size_bytes
                        tally.response_bytes += 4 + size
                else:
                    exchange = reply_stream.count_reply(link.shared, exchange, size)
                    if isinstance(exchange, ObservedExchange):
                        link.calls.complete_replied(exchange, now_ms)
            elif path == paths.IF_UNTAGGED or not _is_heard(link, exchange, buf, pos, stop, now_ms):
                break
            usage.response_bytes += 4 + size
            del entries[0]
            pos = stop
    finally:
        link.settled = pos


def stream_usual(link: Link, buf: bytearray, pos: int, end: int) -> None:
    """Begin the reply at `pos`, which is usual but not whole in this read. What passes of it ends at `link.settled`.

    Any other is left to the general path.
    """
    entries = link.queue.entries
    if not entries or end - pos < frame_heads.REPLY_BYTES:
        return
    size, correlation_id = frame_heads.reply_at(buf, pos)
    exchange: Exchange = entries[0]  # type: ignore[assignment] # as above
    plan = exchange.plan
    if (
        correlation_id != exchange.correlation_id
        or not (
            plan.reply_path == paths.PASSES or (plan.walks_tail and plan.reply_path != paths.HEARD)
        )
        or size < 4
        or end - pos >= 4 + size
    ):
        return
    link.settled = reply_stream.begin(link, plan, size, buf, pos, end)


def _is_heard(
    link: Link, exchange: Exchange, buf: bytearray, pos: int, stop: int, now_ms: int
) -> bool:
    """Tell the policies of a reply that passes unchanged, and complete it. False, and nothing done: it may not."""
    plan = exchange.plan
    if plan.rewrite is not None:
        shape = plan.untagged_shape
        if shape is None or not shape.matches(buf, pos, stop):
            return False
    size = stop - pos - 4
    if isinstance(exchange, ObservedExchange):
        on_reply(link, exchange, size, buf, pos, stop, now_ms)
    if plan.counts_fetched:
        plan.topics.fetched(buf, pos, stop)  # type: ignore[union-attr] # there is one
    exchange = reply_stream.count_reply(link.shared, exchange, size)
    link.calls.complete_replied(exchange, now_ms)
    return True
