"""The general path of replies: whatever the fast loop of `Session.from_broker` did not settle.

Rules:
- A reply belongs to the oldest exchange of its session; any other correlation id kills both sides.
- What carries broker addresses (or API ranges) is kept, counted, rewritten: the part that has them, or all of it
  (`proxy.core.session.kept_replies`). Everything else streams.
- A fault (in the broker's bytes, or in what a policy says of them) takes nothing from the replies before it: they
  are delivered. None behind it can be, for replies leave in order, so the session ends at once.
- A reply made here leaves when it is its turn, and no byte of the broker's comes between.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.errors import BrokerProtocolError
from proxy.core.protocol_sniffer import guess_protocol
from proxy.core.session import kept_replies
from proxy.core.session.body_walk import begin_fetched, begin_names, fetched, fetched_whole
from proxy.core.session.channel import ATTENTION
from proxy.core.session.deadlines import TRACKED
from proxy.core.session.exchange import (
    AnsweredExchange,
    Exchange,
    ProxyExchange,
    Reply,
    SwallowedExchange,
)
from proxy.core.stats.histogram import bucket_of
from wire import throttle
from wire.apis import ThrottleField

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.state import Settled

_REPLY = Struct(">ii").unpack_from
HEAD_BYTES = 64
"""Enough of a reply to find its first field: header, a tag section, throttle_time_ms."""


def passes(
    s: SessionEnd, exchange: Exchange, buf: bytearray, pos: int, stop: int, now_ms: int
) -> bool:
    """Whether a watched reply, whole in buf[pos:stop], goes on as it lies; if so, all are told."""
    plan = exchange.plan
    if plan.rewrite is not None and not (plan.look is not None and plan.look(buf, pos, stop)):
        return False
    until_ms = 0 if plan.simple else exchange.throttle_until_ms
    why = None
    if plan.hooks.on_response is not None:
        heard = s.on_response(exchange, Reply(plan.api, stop - pos - 4, buf, pos, stop), now_ms)
        if heard is not None:
            until_ms = max(until_ms, now_ms + heard.throttle_time_ms)
            why = heard.why
    if until_ms > now_ms:
        _quiet(s, exchange, until_ms, why, buf, pos, stop, now_ms)
    if plan.topics:
        fetched_whole(s, exchange, buf, pos, stop)
    count(s, exchange, stop - pos - 4)
    s.complete(exchange, Outcome.REPLIED, now_ms)
    return True


def count(s: SessionEnd, exchange: Exchange, size_bytes: int) -> None:
    """The broker's reply is through: what the fast loop does in one line, and what it leaves out."""
    plan = exchange.plan
    took_us = s.engine.now_us - exchange.arrived_us
    plan.upstream[bucket_of(took_us)] += 1
    if s.engine.meters.by_key:
        plan.meter.request_bytes += 4 + exchange.size_bytes
        plan.meter.response_bytes += 4 + size_bytes
    if took_us >= plan.slow_us:
        trail = s.trace_of(exchange)
        if trail is not None:
            trail.slow = True
    if not exchange.plan.simple:
        if exchange.trail is not None:
            exchange.trail.reply_bytes = size_bytes
        if exchange.seen is not None:
            exchange.seen.reply_bytes = size_bytes


def late(s: SessionEnd, exchange: Exchange, size_bytes: int, now_ms: int) -> None:
    """A reply of the fast loop that took its time."""
    count(s, exchange, size_bytes)
    if not exchange.plan.simple:  # it got a trail
        s.complete(exchange, Outcome.REPLIED, now_ms)


def rest(s: SessionEnd, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
    """Take buf[settled.stop:end]. Returns as `from_broker` does; when it raises, `settled` is what may go on."""
    start, pos = settled.start, settled.stop  # buf[settled.start:pos] goes on as it lies
    while pos < end:
        if s.reply_left:
            taken = min(s.reply_left, end - pos)
            if s.reply_walker is not None:
                s.reply_walker.feed(buf, pos, pos + taken)  # it never raises
            if s.reply_gathered is not None:
                s.flush_replies(buf, settled.start, pos)
                settled.start = pos + taken
                kept_replies.add(s, memoryview(buf)[pos : settled.start])
            elif s.reply_dropped:
                settled.start = pos + taken
            pos += taken
            s.reply_left -= taken
            if s.reply_try_bytes:
                _settle_lead(s, now_ms)
            if not s.reply_left:
                s.reply_dropped = False
                if s.reply_walker is not None:
                    fetched(s)
                settled.stop = pos
                if s.unusual_replies:
                    s.flush_replies(buf, settled.start, pos)
                    settled.start = pos
                if s.reply_gathered is not None:
                    _settle_whole(s, now_ms)
                finish(s, now_ms)
            continue
        if end - pos < 8:
            s.broker.keep(bytes(memoryview(buf)[pos:end]))
            break
        size, correlation_id = _REPLY(buf, pos)
        stop = pos + 4 + size
        exchange = _expected(s, buf, pos, size, correlation_id)
        s.reply_bytes = size
        if isinstance(exchange, SwallowedExchange):
            s.flush_replies(buf, settled.start, pos)
            settled.start = pos
            s.reply_left, s.reply_dropped = 4 + size, True
            continue
        if stop > end:
            if isinstance(exchange, ProxyExchange) or _is_kept(exchange):
                leads, copies = _how_kept(exchange)
                kept_replies.begin(s, size, leads=leads, copies=copies)
            elif end - pos < HEAD_BYTES and _is_stamped(exchange):
                s.broker.keep(bytes(memoryview(buf)[pos:end]))
                break
            else:
                _hear(s, exchange, size, buf, pos, end, now_ms)
                if exchange.plan.topics:
                    begin_fetched(s, exchange)
            s.reply_left = 4 + size
            continue
        if isinstance(exchange, ProxyExchange):
            s.flush_replies(buf, settled.start, pos)
            settled.start = stop
            exchange.on_reply(bytes(memoryview(buf)[pos:stop]))
            s.attention = True
        else:
            changed = None
            if exchange.plan.topics:
                fetched_whole(s, exchange, buf, pos, stop)
            if exchange.plan.rewrite is not None:
                changed = kept_replies.rewritten(exchange, exchange.plan.rewrite, buf, pos, stop)
            if changed is None:
                _hear(s, exchange, size, buf, pos, stop, now_ms)
            else:
                s.flush_replies(buf, settled.start, pos)
                settled.start = stop
                s.reply_bytes = len(changed) - 4
                _hear(s, exchange, size, changed, 0, len(changed), now_ms)
                s.client.put(changed)
                s.attention = True
        settled.stop = pos = stop
        if s.unusual_replies and settled.start != pos:
            s.flush_replies(buf, settled.start, pos)
            settled.start = pos
        finish(s, now_ms)
    if s.attention or settled.start != start:
        s.attention = False
        s.flush_replies(buf, settled.start, pos)
        return ATTENTION
    return pos


def finish(s: SessionEnd, now_ms: int) -> None:
    """The head's reply is through: complete it, and let the replies made here that waited behind it go."""
    head = s.queue.popleft()
    if isinstance(head, SwallowedExchange):
        s.unusual_replies -= 1
        s.node.on_settled()
        if not (s.patient or s.draining):
            s.patient = True
            s.unusual_replies += (
                1  # until the broker's own answer to a tracked request has passed: see below
            )
    elif isinstance(head, ProxyExchange):
        s.unusual_replies -= 1
    elif isinstance(head, Exchange):
        if s.patient and head.plan.api.key in TRACKED:
            s.patient = False
            s.unusual_replies -= 1
        s.usage.response_bytes += 4 + s.reply_bytes
        count(s, head, s.reply_bytes)
        s.complete(head, Outcome.REPLIED, now_ms)
    let_go(s, 0, now_ms)
    if s.ending:
        s.maybe_end()


def let_go(s: SessionEnd, place: int, now_ms: int) -> None:
    """The replies made here that stand at `place` in the queue have their turn."""
    queue = s.queue
    while place < len(queue):
        waiting = queue[place]
        if not isinstance(waiting, AnsweredExchange):
            break
        del queue[place]
        s.unusual_replies -= 1
        s.client.pool.release(len(waiting.reply))
        s.client.put(waiting.reply)
        s.attention = True
        s.complete(waiting.exchange, Outcome.ANSWERED, now_ms, forwarded=False)


def forget(s: SessionEnd) -> None:
    """The session ends: give back what was kept of a reply."""
    kept_replies.forget(s)


def _expected(
    s: SessionEnd, buf: bytearray, pos: int, size: int, correlation_id: int
) -> Exchange | SwallowedExchange | ProxyExchange:
    """The exchange this reply belongs to, or the end of both sides."""
    head = s.queue[0] if s.queue else None
    if size >= 4 and isinstance(head, Exchange | SwallowedExchange | ProxyExchange):
        if head.correlation_id == correlation_id:
            return head
        expected = f"correlation id {head.correlation_id} was due"
    else:
        expected = "no reply was due" if head is None else "that is no size"
    hint = guess_protocol(bytes(memoryview(buf)[pos : pos + 8]))
    raise BrokerProtocolError(
        f"a reply of {size} bytes with correlation id {correlation_id}; {expected}{hint}"
    )


def _settle_whole(s: SessionEnd, now_ms: int) -> None:
    """A reply that was kept whole is here: rewrite it, or hand it to whoever asked."""
    frame, counted_bytes = kept_replies.take(s)
    head = s.queue[0]
    try:
        if isinstance(head, ProxyExchange):
            head.on_reply(bytes(frame))
            frame.clear()
        elif isinstance(head, Exchange):
            size = len(frame) - 4
            if head.plan.topics:
                fetched_whole(s, head, frame, 0, len(frame))
            if head.plan.rewrite is not None:
                changed = kept_replies.rewritten(
                    head, head.plan.rewrite, frame, 0, len(frame), spend=True
                )
                frame = frame if changed is None else changed
                s.reply_bytes = len(frame) - 4
            _hear(s, head, size, frame, 0, len(frame), now_ms)
    except Exception:
        s.client.pool.release(counted_bytes)
        raise
    s.client.put(frame, counted_bytes)
    s.attention = True


def _settle_lead(s: SessionEnd, now_ms: int) -> None:
    """More of a reply is here of which only the first part is rewritten: the rest streams once that is done."""
    head = s.queue[0]
    assert isinstance(head, Exchange)  # noqa: S101 - only such replies lead
    lead = kept_replies.maybe_lead(s, head)
    if lead is None:
        return
    size = s.reply_bytes
    s.reply_bytes = int.from_bytes(lead[:4], "big")
    _hear(s, head, size, lead, 0, len(lead), now_ms)
    frame, counted_bytes = kept_replies.take(s)
    begin_names(s, head, frame)
    s.client.put(lead, counted_bytes)
    s.attention = True


def _is_kept(exchange: Exchange) -> bool:
    """Whether a reply of which not all is here has to be kept: to be changed, or for its last field."""
    plan = exchange.plan
    return plan.rewrite is not None or (
        plan.api.throttle is ThrottleField.LAST and _is_stamped(exchange)
    )


def _how_kept(exchange: Exchange | ProxyExchange) -> tuple[bool, int]:
    """Whether only its first part is kept, and how often all of it may be here at once."""
    if isinstance(exchange, ProxyExchange) or exchange.plan.rewrite is None:
        return False, 1
    last = exchange.plan.api.throttle is ThrottleField.LAST and _is_stamped(exchange)
    return exchange.plan.lead is not None and not last, 2


def _is_stamped(exchange: Exchange) -> bool:
    """Whether a throttle is written into the reply, or may be when the policies have heard of it."""
    plan = exchange.plan
    return not plan.simple and (
        plan.hooks.on_response is not None or exchange.throttle_until_ms > 0
    )


def _hear(
    s: SessionEnd, exchange: Exchange, size: int, buf: bytearray, pos: int, end: int, now_ms: int
) -> None:
    """A reply is about to leave: the policies hear of it, and what is left of a throttle is written into it."""
    if exchange.plan.simple:
        return
    until_ms = exchange.throttle_until_ms
    why = None
    if exchange.plan.hooks.on_response is not None:
        heard = s.on_response(exchange, Reply(exchange.plan.api, size, buf, pos, end), now_ms)
        if heard is not None:
            until_ms = max(until_ms, now_ms + heard.throttle_time_ms)
            why = heard.why
    if until_ms > now_ms:
        _quiet(s, exchange, until_ms, why, buf, pos, end, now_ms)


def _quiet(
    s: SessionEnd,
    exchange: Exchange,
    until_ms: int,
    why: QuotaViolation | None,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> None:
    """Write what is left into the reply. The broker's own figure stays if it is larger, and then it counts."""
    said_ms = throttle.stamp(buf, pos, end, exchange.plan.api, until_ms - now_ms)
    s.throttle(exchange, max(until_ms, now_ms + said_ms), now_ms, why)
