"""DelayedProduce and DelayedFetch: requests that wait at the broker, and are answered here if it is silent.

Rules:
- Tracked are acks=all produces and fetches that may wait, from the moment they are forwarded. Each has a
  deadline: its own timeout and a grace, both known from its plan.
- The broker answers in order, so a request's time counts from when it became the oldest of its connection:
  from the broker's last bytes here, or from its own arrival if that was later.
- Replies leave in order, so only the oldest unanswered request of a session can be answered here. One
  timer a session stands for all of them: no deadline comes up before it, and a read sees to that.
- At a deadline Sluice answers only if the broker is silent (see `proxy.core.node_health`). A wait of
  `Plan.ends_at_deadline` ends at its deadline in any case: the client asked for more than is granted.
- The broker's late reply is discarded; later replies are paired as usual. Two late replies in a row are not discarded:
  after the first the session is `patient`, and the next tracked request waits for the broker's own reply.
- The session ends when a reply, the rest of a reply or the sending of a request takes longer than the request
  timeout. Time in which the client does not read, or is still sending, does not count against the broker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.errors import CloseReason
from proxy.core.purgatory.timing_wheel import NEVER_MS
from proxy.core.session import crowding
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import (
    AnsweredExchange,
    Exchange,
    ProxyExchange,
    SwallowedExchange,
    observed,
)
from proxy.core.session.kept_produce import leave_to_broker, timed_out_body
from proxy.core.session.local_replies import frame_of, send_answers
from proxy.core.session.traces import trace_of
from wire.api_keys import ApiKey
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.session.link import Link

TRACKED = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))
WAITS_FOR_OTHERS = frozenset((ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH))
"""The broker answers when the rest of a group has come, or records have: there is no telling when."""
MAX_ANSWERS = 256
"""The most replies of one session that are made here in one turn (2 to 3 ms), so that other sessions get their turn."""
LOOK_RARELY_MS = 60_000
NO_DEADLINE_MS = NEVER_MS
"""A time in milliseconds that is never reached."""


# -- what happens ----------------------------------------------------------------------------------


def watch(link: Link, now_ms: int) -> None:
    """Set the timer for a request that was just forwarded: no earlier deadline is set."""
    wait_ms = link.plans.shortest_wait_ms
    if wait_ms < NEVER_MS:
        _arm_at(link, now_ms + wait_ms)
    else:
        release(link)


def watch_unsent(link: Link) -> None:
    """Start timing bytes that the broker has not taken. They may be requests without a reply (acks=0)."""
    timeout_ms, now_ms = link.shared.request_timeout_ms, link.shared.now_ms
    link.taken_bytes, link.taken_ms = _taken_bytes(link), now_ms
    if timeout_ms and link.wait_timer is None and not link.ended:
        _arm_at(link, now_ms + timeout_ms)


def on_late_reply(link: Link) -> None:
    """Wait for the broker's own reply to the next tracked request, because a late reply was discarded."""
    link.node.on_settled()
    if not (link.draining or link.is_patient):
        link.is_patient = True
        link.queue.watch()


def on_answer(link: Link, exchange: Exchange) -> None:
    """Leave the `patient` state if the broker has replied to this exchange, and it is a tracked one."""
    if link.is_patient and exchange.plan.api.key in TRACKED:
        link.is_patient = False
        link.queue.unwatch()


def release(link: Link) -> None:
    """Cancel the timer."""
    if link.wait_timer is not None:
        link.wait_timer.cancel()
        link.wait_timer = None
        link.wait_at_ms = NO_DEADLINE_MS


# -- the timer -------------------------------------------------------------------------------------


def _arm_at(link: Link, at_ms: int) -> None:
    if link.wait_timer is not None:
        link.wait_timer.cancel()
    link.wait_timer = link.shared.timers.arm(at_ms, partial(_on_due, link))
    link.wait_at_ms = at_ms


def _on_due(link: Link, now_ms: int) -> None:
    link.wait_timer, link.wait_at_ms = None, NO_DEADLINE_MS
    try:
        _look(link, now_ms)
    except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
        link.fail_and_ask_for_turn(fault)


def _look(link: Link, now_ms: int) -> None:
    """Answer overdue requests, end the session if the request timeout is over, and set the timer again."""
    if link.ended:
        return
    unread_bytes = link.client.unsent_bytes  # before anything is answered here
    if link.broker.muted & (Mute.OUT_OF_MEMORY | Mute.HEARING):  # its reply waits here
        link.excuse_broker(now_ms)
        link.node.heard_ms = now_ms
    expire(link, now_ms)
    if link.ending:
        link.maybe_end()
    if link.ended or _end_if_overdue(link, now_ms, unread_bytes):
        return
    if link.wait_timer is None:
        if link.queue or link.broker.unsent_bytes:
            _arm(link, now_ms)
        elif not link.is_patient:
            link.taken_bytes = -1  # nothing is owed


def _arm(link: Link, now_ms: int) -> None:
    """Set the timer for the replies that are due now. Later requests set it themselves (`watch`).

    The next requests become the oldest at a time that is not known. They are looked at after the
    shortest wait of this session, and ever more rarely: after a quarter of the time that the oldest has been owed.
    """
    queue, timeout_ms = link.queue, link.shared.request_timeout_ms
    soonest_ms = now_ms + (timeout_ms or LOOK_RARELY_MS)
    if timeout_ms and (link.client.unsent_bytes or link.broker.unsent_bytes):
        soonest_ms = now_ms + max(timeout_ms >> 2, 1)
    if queue:
        head = queue[0]
        if not isinstance(head, AnsweredExchange):
            owed_since_ms = max(head.arrived_ms, link.replied_ms)
            hangs_ms = owed_since_ms + timeout_ms
            if timeout_ms and isinstance(head, Exchange):
                hangs_ms = owed_since_ms + max(timeout_ms, head.plan.wait_ms)
            if timeout_ms and hangs_ms > now_ms:
                soonest_ms = min(soonest_ms, hangs_ms)
            if len(queue) > 1:
                again_ms = max(link.plans.shortest_wait_ms, now_ms - owed_since_ms >> 2)
                soonest_ms = min(soonest_ms, now_ms + min(again_ms, LOOK_RARELY_MS))
        soonest_ms = min(soonest_ms, _next_due_ms(link, now_ms))
    _arm_at(link, soonest_ms)


# -- deadlines -------------------------------------------------------------------------------------


def _next_due_ms(link: Link, now_ms: int) -> int:
    queue = link.queue
    place = queue.unanswered_place()
    if place < len(queue):
        exchange = queue[place]
        if isinstance(exchange, Exchange) and not _is_passing(link, exchange, place):
            at_ms = due_ms(link, exchange)
            if at_ms > now_ms:
                return at_ms
    return NO_DEADLINE_MS


def due_ms(link: Link, exchange: Exchange) -> int:
    """Return when (in ms) the oldest unanswered request is answered here; NO_DEADLINE_MS: only the broker can."""
    plan = exchange.plan
    if not plan.wait_ms:
        return NO_DEADLINE_MS
    arrived_ms = exchange.arrived_ms
    own_ms = max(arrived_ms, link.replied_ms) + plan.wait_ms
    if plan.ends_at_deadline:
        return own_ms
    if link.is_patient:
        return NO_DEADLINE_MS
    silence_ms = link.shared.graces.silence_ms
    if not silence_ms:
        return own_ms
    # A request may not stay unanswered for longer than the request timeout: an answer is better than the end.
    silence_ms = min(silence_ms, link.shared.request_timeout_ms or silence_ms)
    return max(own_ms, link.node.silent_since_ms(arrived_ms) + silence_ms)


def _is_passing(link: Link, exchange: Exchange, place: int) -> bool:
    """Return whether the request at `place` is being answered, or has not gone out yet."""
    is_here = link.reply_left or link.broker.muted & Mute.HEARING
    return bool(place == 0 and is_here) or exchange is link.half_sent


# -- answering here --------------------------------------------------------------------------------


def expire(link: Link, now_ms: int, *, draining: bool = False) -> None:
    """Answer the overdue requests here, oldest first (`draining`: and each fetch that still waits).

    After MAX_ANSWERS the session has another turn a millisecond later. It does not raise: a policy's fault
    ends this session.
    """
    queue = link.queue
    place = queue.unanswered_place()
    answered = 0
    while place < len(queue):
        exchange = queue[place]
        if isinstance(exchange, SwallowedExchange | ProxyExchange):
            place += 1
            continue
        if isinstance(exchange, AnsweredExchange):  # after a question of our own
            send_answers(link, place, now_ms)
            link.ask_for_turn()
            continue
        if not exchange.plan.wait_ms or _is_passing(link, exchange, place):
            break
        early = draining and exchange.plan.api.key == ApiKey.FETCH
        if not early and now_ms < due_ms(link, exchange):
            break
        if answered == MAX_ANSWERS:
            _arm_at(link, now_ms + 1)
            return
        try:
            body = timed_out_body(exchange)
        except WireError:
            leave_to_broker(exchange)
            break
        if not answered:
            link.ask_for_turn()
        answered += 1
        queue.swallow(place, exchange, now_ms)
        if early or exchange.plan.ends_at_deadline:
            link.node.on_answered_here()
        else:
            link.node.on_answered_here(exchange.arrived_ms)
        if not _answer(link, exchange, body, now_ms, early=early):
            return
        place += 1
    if answered:
        crowding.recount(link)


def _answer(link: Link, waited: Exchange, body: bytes, now_ms: int, *, early: bool) -> bool:
    """Reply to the client here. Return False if that failed, and the session has ended."""
    shared = link.shared
    exchange = observed(waited)
    try:
        if not early:
            trace_of(shared, exchange)
        reply = frame_of(link, exchange, body, now_ms, forwarded=True)  # ends it if it raises
    except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
        link.fail(fault, CloseReason.INTERNAL)
        return False
    link.client.put(reply)
    plan = exchange.plan
    plan.meter.left("drained" if early else "expired", shared.now_us - exchange.arrived_us)
    if not early:
        if plan.api.key == ApiKey.FETCH:
            shared.expired.fetch += 1
        else:
            shared.expired.produce += 1
        shared.observer.on_expired(plan.peer, plan.api.name)
    link.complete(exchange, Outcome.ANSWERED if early else Outcome.EXPIRED, now_ms)
    return True


# -- ending what hangs -----------------------------------------------------------------------------


def _end_if_overdue(link: Link, now_ms: int, unread_bytes: int) -> bool:
    """End the session if something has been owed for too long; return whether it has."""
    what = _overdue(link, now_ms, unread_bytes)
    if not what:
        return False
    link.end_and_ask_for_turn(CloseReason.UPSTREAM_REQUEST_TIMEOUT, what, now_ms)
    return True


def _overdue(link: Link, now_ms: int, unread_bytes: int) -> str:
    """Return what has been owed for longer than the request timeout, in words; "" if nothing is.

    `unread_bytes` of replies were there before this look that the client has not taken.
    """
    timeout_ms = link.shared.request_timeout_ms
    if not timeout_ms:
        return ""
    if unread_bytes or link.broker.unsent_bytes:
        return _stuck(link, now_ms, unread_bytes, timeout_ms)
    if link.reply_left:
        owed_ms = now_ms - link.replied_ms
        if owed_ms < timeout_ms:
            return ""
        return f"a reply stopped {link.reply_left} bytes before its end, for {owed_ms} ms"
    if not link.queue:
        return ""
    head = link.queue[0]
    if isinstance(head, AnsweredExchange) or head is link.half_sent:
        return ""
    name = "a question of Sluice"
    if isinstance(head, SwallowedExchange):
        name = "a request that was answered here"
    elif isinstance(head, Exchange):
        api = head.plan.api
        if api.may_wait and api.key not in TRACKED and not link.ending:
            return ""  # it may wait without a deadline, as long as its client does
        timeout_ms = max(timeout_ms, head.plan.wait_ms)
        name = api.name
    owed_ms = now_ms - max(head.arrived_ms, link.replied_ms)
    return f"{name} unanswered for {owed_ms} ms" if owed_ms >= timeout_ms else ""


def _stuck(link: Link, now_ms: int, unread_bytes: int, timeout_ms: int) -> str:
    """Return which bytes have not been taken for longer than the request timeout; "" if some were."""
    taken_bytes = _taken_bytes(link)
    if link.taken_bytes != taken_bytes:
        link.taken_bytes, link.taken_ms = taken_bytes, now_ms
    if unread_bytes and not link.ending:
        link.excuse_broker(now_ms)  # it is not read meanwhile
        return ""
    stuck_ms = now_ms - link.taken_ms
    if stuck_ms < timeout_ms:
        return ""
    if unread_bytes:
        return f"{unread_bytes} bytes of replies not taken for {stuck_ms} ms"
    return f"{link.broker.unsent_bytes} bytes of requests not taken for {stuck_ms} ms"


def only_waits(link: Link) -> bool:
    """Return whether all that is unanswered waits for others: a drain does not await that."""
    return all(
        isinstance(exchange, SwallowedExchange)
        or (isinstance(exchange, Exchange) and exchange.plan.api.key in WAITS_FOR_OTHERS)
        for exchange in link.queue
    ) and not (link.reply_left or link.client.unsent_bytes)


def _taken_bytes(link: Link) -> int:
    return link.client.sent_bytes + link.broker.sent_bytes
