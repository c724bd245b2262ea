"""Replies made here: they leave when it is their turn, and the policies hear of them like of any other."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import Outcome
from policies.chain import PolicyFault
from policies.decision import refusal_message
from proxy.core.errors import CloseReason
from proxy.core.session.exchange import AnsweredExchange, Reply, SwallowedExchange
from wire import replies, throttle
from wire.errors import WireError

if TYPE_CHECKING:
    from policies.api import Reject, Respond
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.exchange import Exchange

_REPLY_HEAD = Struct(">ii").pack
_TAGGED_REPLY_HEAD = Struct(">iix").pack


def frame_of(
    s: SessionEnd, exchange: Exchange, body: bytes, now_ms: int, *, forwarded: bool = False
) -> bytearray:
    """The whole reply, of which the policies have heard, and which says what is left of a throttle."""
    api = exchange.plan.api
    tagged = api.response_header_version
    pack = _TAGGED_REPLY_HEAD if tagged else _REPLY_HEAD
    reply = bytearray(pack(4 + tagged + len(body), exchange.correlation_id) + body)
    try:
        heard = s.on_response(exchange, Reply(api, len(reply) - 4, reply, 0, len(reply)), now_ms)
    except PolicyFault:
        s.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=forwarded)
        raise
    s.usage.response_bytes += len(reply)
    until_ms = 0 if exchange.plan.simple else exchange.throttle_until_ms  # else never set
    if heard is not None:
        until_ms = max(until_ms, now_ms + heard.throttle_time_ms)
    if until_ms > now_ms:
        try:
            throttle.stamp(reply, 0, len(reply), api, until_ms - now_ms)
        except WireError as error:  # a policy's own body, and no response of this API
            raise s.blame(exchange, error, now_ms) from error
        s.throttle(exchange, until_ms, now_ms, None if heard is None else heard.why)
    if not exchange.plan.simple:
        if exchange.trail is not None:
            exchange.trail.reply_bytes = len(reply) - 4
        if exchange.seen is not None:
            exchange.seen.reply_bytes = len(reply) - 4
    return reply


def answer(s: SessionEnd, exchange: Exchange, body: bytes, now_ms: int) -> None:
    """Reply from here, when its turn comes. For a request without reply nothing is sent."""
    s.attention = True
    if exchange.plan.silent:
        s.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
        return
    reply = frame_of(s, exchange, body, now_ms)
    if s.queue and not isinstance(s.queue[-1], SwallowedExchange):
        s.client.pool.force_allocate(len(reply))
        s.queue.append(AnsweredExchange(exchange, reply))
        s.unusual_replies += 1
    else:
        s.client.put(reply)
        s.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)


def respond(s: SessionEnd, exchange: Exchange, verdict: Respond, now_ms: int) -> None:
    """Reply with a policy's own body, which may be a refusal."""
    if verdict.refuses is not None:
        s.mark_refused(exchange, verdict.refuses)
    answer(s, exchange, verdict.body, now_ms)


def refuse(s: SessionEnd, exchange: Exchange, verdict: Reject, body: bytes, now_ms: int) -> None:
    """Reply with an error in the API's own shape; `body` is the request's, which some shapes echo."""
    name = s.mark_refused(exchange, verdict)
    if not exchange.plan.silent:
        try:
            words = refusal_message(name, verdict)
            reply = replies.error_body(exchange.plan.api, body, verdict.code, words)
        except WireError as error:
            s.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
            s.end_after_replies(CloseReason.POLICY, f"refused, and no shape to say so: {error}")
            return
        answer(s, exchange, reply, now_ms)
    else:
        s.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
    if verdict.close or exchange.plan.silent:
        s.end_after_replies(CloseReason.POLICY, f"{exchange.plan.api.name} refused")
