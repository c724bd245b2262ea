"""The general path of replies: whatever the fast loop of `Session.from_broker` did not settle.

Rules:
- A reply belongs to the oldest exchange of its session; any other correlation id kills both sides.
- What carries broker addresses (or API ranges) is kept whole, counted, rewritten; everything else streams.
- A reply made here leaves when it is its turn, and no byte of the broker's comes between.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.channel import ATTENTION
from proxy.core.errors import BrokerProtocolError
from proxy.core.exchanges import AnsweredExchange, Exchange, OwnExchange, Reply
from proxy.core.guess import guess_protocol
from wire import header

if TYPE_CHECKING:
    from proxy.core.session import Session

_REPLY = Struct(">ii").unpack_from
_SIZE = Struct(">i").pack


def passes(
    s: Session, exchange: Exchange, buf: bytearray, pos: int, stop: int, now_ms: int
) -> bool:
    """Whether a watched reply, whole in buf[pos:stop], goes on as it lies; if so, all are told."""
    plan = exchange.plan
    if plan.rewrite is not None and not (plan.look is not None and plan.look(buf, pos, stop)):
        return False
    _heard(exchange, stop - pos - 4, now_ms)
    s.complete(exchange, Outcome.REPLIED, now_ms)
    return True


def rest(s: Session, buf: bytearray, start: int, pos: int, end: int, now_ms: int) -> int:
    """Take buf[pos:end]; buf[start:pos] is settled and may go on. Returns as `from_broker` does."""
    clear = start  # buf[clear:pos] goes on as it lies
    while pos < end:
        if s.reply_left:
            taken = min(s.reply_left, end - pos)
            if s.reply_gathered is not None:
                s.flush_replies(buf, clear, pos)
                clear = pos + taken
                s.reply_gathered += memoryview(buf)[pos:clear]
                s.client.pool.force_allocate(taken)
            pos += taken
            s.reply_left -= taken
            if not s.reply_left:
                if s.unusual_replies:
                    s.flush_replies(buf, clear, pos)
                    clear = pos
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
        if isinstance(exchange, OwnExchange) or (exchange.plan.rewrite is not None and stop > end):
            if size > s.engine.reply_max_bytes:
                raise BrokerProtocolError(f"a reply of {size} bytes that has to be kept whole")
            s.reply_gathered = bytearray()
            s.reply_left = 4 + size
        elif exchange.plan.rewrite is None:
            _heard(exchange, size, now_ms)
            s.reply_left = 4 + size
        else:
            changed = _rewritten(exchange, buf, pos, stop)
            _heard(exchange, size, now_ms)
            if changed is not None:
                s.flush_replies(buf, clear, pos)
                s.client.put(changed)
                s.attention = True
                clear = pos = stop
            else:
                pos = stop
                if s.unusual_replies:
                    s.flush_replies(buf, clear, pos)
                    clear = pos
            finish(s, now_ms)
    if s.attention or clear != start:
        s.attention = False
        s.flush_replies(buf, clear, pos)
        return ATTENTION
    return pos


def finish(s: Session, now_ms: int) -> None:
    """The head's reply is through: complete it, and let the replies made here that waited behind it go."""
    head = s.queue.popleft()
    if isinstance(head, OwnExchange):
        s.unusual_replies -= 1
    elif isinstance(head, Exchange):
        s.complete(head, Outcome.REPLIED, now_ms)
    while s.queue:
        waiting = s.queue[0]
        if not isinstance(waiting, AnsweredExchange):
            break
        s.queue.popleft()
        s.unusual_replies -= 1
        s.client.pool.release(len(waiting.reply))
        s.client.put(waiting.reply)
        s.attention = True
        s.complete(waiting.exchange, Outcome.ANSWERED, now_ms)
    if s.ending:
        s.maybe_end()


def forget(s: Session) -> None:
    """The session ends: give back what was kept of a reply."""
    if s.reply_gathered is not None:
        s.client.pool.release(len(s.reply_gathered))
        s.reply_gathered = None


def _expected(
    s: Session, buf: bytearray, pos: int, size: int, correlation_id: int
) -> Exchange | OwnExchange:
    """The exchange this reply belongs to, or the end of both sides."""
    head = s.queue[0] if s.queue else None
    if size >= 4 and isinstance(head, Exchange | OwnExchange):
        if head.correlation_id == correlation_id:
            return head
        expected = f"correlation id {head.correlation_id} was due"
    else:
        expected = "no reply was due" if head is None else "that is no size"
    hint = guess_protocol(bytes(memoryview(buf)[pos : pos + 8]))
    raise BrokerProtocolError(
        f"a reply of {size} bytes with correlation id {correlation_id}; {expected}{hint}"
    )


def _settle_whole(s: Session, now_ms: int) -> None:
    """A reply that was kept whole is here: rewrite it, or hand it to whoever asked."""
    frame, s.reply_gathered = s.reply_gathered, None
    assert frame is not None  # noqa: S101 - the caller has looked
    s.client.pool.release(len(frame))
    head = s.queue[0]
    if isinstance(head, OwnExchange):
        head.on_reply(bytes(frame))
    elif isinstance(head, Exchange):
        changed = _rewritten(head, frame, 0, len(frame))
        _heard(head, len(frame) - 4, now_ms)
        s.client.put(frame if changed is None else changed)
    s.attention = True


def _rewritten(exchange: Exchange, buf: bytearray, pos: int, stop: int) -> bytes | None:
    """The whole frame anew, or None when it passes as it is."""
    plan = exchange.plan
    body_at = header.response_body_at(buf, pos, stop, plan.api.response_header_version)
    if body_at is None or plan.rewrite is None:
        raise BrokerProtocolError(f"a {plan.api.name} reply shorter than its header")
    body = plan.rewrite(buf, body_at, stop)
    if body is None:
        return None
    head = bytes(memoryview(buf)[pos + 4 : body_at])
    return b"".join((_SIZE(len(head) + len(body)), head, body))


def _heard(exchange: Exchange, size_bytes: int, now_ms: int) -> None:
    on_response = exchange.plan.hooks.on_response
    if on_response is not None:
        on_response(exchange, Reply(size_bytes), exchange.plan.peer, now_ms)
