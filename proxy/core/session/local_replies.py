"""Replies made here, and the last steps of every reply: the policies are told of it, and the remaining throttle time is
written into it.

Rules:
- `on_reply` is called once for each reply, the broker's or our own, when its head has arrived.
- A reply made here is sent in its turn, and not inside a reply of the broker.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import Forward, Outcome, Respond, Throttle
from policies.chain import PolicyFault
from policies.decision import refusal_message
from proxy.core.errors import CloseReason
from proxy.core.session import mutes
from proxy.core.session.exchange import AnsweredExchange, SwallowedExchange
from proxy.core.session.reply import Reply
from proxy.core.session.traces import on_refused
from wire import large_refusals
from wire.apis import ApiKey
from wire.errors import WireError
from wire.throttle import MAX_BROKER_MS

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Reject, Verdict
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from proxy.core.session.plan import Plan

_REPLY_HEAD = Struct(">ii").pack
_TAGGED_REPLY_HEAD = Struct(">iix").pack
_UNTOLD = ApiKey.JOIN_GROUP
"""Its reply does not tell of the throttle; the channel is muted all the same. kafka-python 3 sends no SyncGroup while
that reply pauses it, but joins again, is throttled again, and so never joins."""


def on_reply(
    link: Link,
    exchange: ObservedExchange,
    size: int,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> bytearray | None:
    """Prepare a reply of `size` bytes, of which buf[pos:end] has arrived, for its client.

    The policies are told of it, and the remaining throttle time is written into it (KIP-219). A larger figure of the
    broker stays, and throttles the client here, too (ten minutes of it at most). Returns the frame to send instead,
    if a policy has replaced the body; else None. Raises PolicyFault; WireError if the field cannot be found.
    """
    plan = exchange.plan
    if plan.streamed is not None:
        return _result(hearing(link, exchange, size, buf, pos, end, now_ms))
    verdict = None
    if plan.hooks.on_response is not None:
        reply = Reply(plan.api, size, buf, pos, end)
        verdict = link.calls.on_response(exchange, reply, now_ms)
    _stamp(link, exchange, verdict, buf, pos, end, now_ms)
    return None


def hearing(
    link: Link,
    exchange: ObservedExchange,
    size: int,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> Generator[None, None, bytearray | None]:
    """Do as `on_reply`, for a reply whose body policies hear; pause where one of them takes it in turns.

    Meanwhile nobody may change `buf`.
    """
    reply = Reply(exchange.plan.api, size, buf, pos, end, link.shared.rewrites.topics)
    verdict, changed = yield from link.calls.hearing(exchange, reply, now_ms)
    if changed is not None:
        buf, pos, end = changed, 0, len(changed)
    _stamp(link, exchange, verdict, buf, pos, end, link.shared.now_ms)
    return changed


def _result(steps: Generator[None, None, bytearray | None]) -> bytearray | None:
    """Return what a generator returns, after all of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            changed: bytearray | None = end.value
            return changed


def _stamp(
    link: Link,
    exchange: ObservedExchange,
    verdict: Throttle | None,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> None:
    """Write the throttle time into a reply that the policies have heard, and throttle its client."""
    plan = exchange.plan
    until_ms = known_ms = exchange.throttle_until_ms
    why = None
    if verdict is not None:
        until_ms = max(until_ms, now_ms + verdict.throttle_time_ms)
        why = verdict.why
    if until_ms > now_ms:
        own_ms = 0 if plan.api.key == _UNTOLD else until_ms - now_ms
        said_ms = plan.stamp(buf, pos, end, own_ms)
        until_ms = max(until_ms, now_ms + min(said_ms, MAX_BROKER_MS))
        if until_ms > known_ms:  # else the client is throttled until then already
            mutes.throttle(link, exchange, until_ms, now_ms, why)


def frame_of(
    link: Link, exchange: ObservedExchange, body: bytes, now_ms: int, *, forwarded: bool = False
) -> bytearray:
    """Return the whole reply frame with this body, ready to send. Raises PolicyFault; then the request has ended."""
    api = exchange.plan.api
    tagged = api.response_header_version
    pack = _TAGGED_REPLY_HEAD if tagged else _REPLY_HEAD
    reply = bytearray(pack(4 + tagged + len(body), exchange.correlation_id) + body)
    try:
        changed = on_reply(link, exchange, len(reply) - 4, reply, 0, len(reply), now_ms)
    except PolicyFault:
        link.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=forwarded)
        raise
    except WireError as error:  # a policy's own body, and no response of this API
        raise link.calls.blame(exchange, error, now_ms) from error
    reply = reply if changed is None else changed
    size = len(reply) - 4
    link.usage.touch()
    link.usage.response_bytes += 4 + size
    if exchange.trace is not None:
        exchange.trace.reply_bytes = size
    if exchange.seen is not None:
        exchange.seen.reply_bytes = size
    return reply


def answer(link: Link, exchange: ObservedExchange, body: bytes, now_ms: int) -> None:
    """Send a reply with this body when its turn comes; nothing for a request without a reply (acks=0)."""
    link.uses_outboxes = True
    if exchange.plan.silent:
        link.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
        return
    reply = frame_of(link, exchange, body, now_ms)
    queue = link.queue
    if queue and not isinstance(queue[-1], SwallowedExchange):
        link.client.pool.force_allocate(len(reply))
        queue.push_unusual(AnsweredExchange(exchange, reply))
    else:
        link.client.put(reply)
        link.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)


def as_planned(plan: Plan, verdict: Verdict | None) -> Verdict | None:
    """Return the verdict with what the plan has for the request: a reply made here, or another body, if it passes."""
    if plan.answer is None and plan.body is None:
        return verdict
    forward = verdict.forward if isinstance(verdict, Throttle) else verdict
    if not isinstance(forward, Forward):
        return verdict
    planned: Forward | Respond = Forward(body=forward.body or plan.body)
    if plan.answer is not None:
        planned = Respond(plan.answer)
    if isinstance(verdict, Throttle):
        return Throttle(verdict.throttle_time_ms, planned, verdict.why)
    return planned


def respond(link: Link, exchange: ObservedExchange, verdict: Respond, now_ms: int) -> None:
    """Reply with the body that a policy has made, which may be a refusal."""
    if verdict.refuses is not None:
        on_refused(link.shared, exchange, verdict.refuses)
    answer(link, exchange, verdict.body, now_ms)


def refuse(
    link: Link,
    exchange: ObservedExchange,
    verdict: Reject,
    body: bytes,
    now_ms: int,
    policy: str = "",
) -> Generator[None, None, None]:
    """Reply with an error in the API's own format; `body` is the request's, which some formats echo.

    It pauses in a large one.
    `policy` has refused it; else the last that was asked.
    """
    name = on_refused(link.shared, exchange, verdict, policy)
    if not exchange.plan.silent:
        try:
            words = refusal_message(name, verdict)
            api = exchange.plan.api
            brokers = link.shared.topology.advertised() if api.key == ApiKey.METADATA else ()
            reply = yield from large_refusals.refusing(api, body, verdict.code, words, brokers)
        except WireError as error:
            link.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
            why = f"refused without an error reply: {error}"
            link.end_after_replies(CloseReason.POLICY, why)
            return
        answer(link, exchange, reply, link.shared.now_ms)
    else:
        link.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
    if exchange.plan.silent or verdict.closes(exchange.plan.api.name):
        link.end_after_replies(CloseReason.POLICY, f"{exchange.plan.api.name} refused")


def refuse_unanswered(link: Link, exchange: ObservedExchange, verdict: Reject, now_ms: int) -> None:
    """Refuse a request that is too large to be kept for an error reply: the connection is closed."""
    on_refused(link.shared, exchange, verdict)
    link.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
    why = f"refused; request size {4 + exchange.size_bytes} is too large for a reply"
    link.end_after_replies(CloseReason.POLICY, why)


def send_answers(link: Link, place: int, now_ms: int) -> None:
    """Send the replies made here from `place` in the queue on, because their turn has come."""
    while (waiting := link.queue.maybe_take_answer(place)) is not None:
        link.client.pool.release(len(waiting.reply))
        link.client.put(waiting.reply)
        link.uses_outboxes = True
        link.complete(waiting.exchange, Outcome.ANSWERED, now_ms, forwarded=False)
