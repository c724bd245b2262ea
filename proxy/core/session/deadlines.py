"""When something has to be done about what a broker owes: answer in its place, end the session, look again.

Rules:
- The broker answers in order, so a request's time counts from when it became the oldest of its connection:
  from the broker's last bytes here, or from its own arrival if that was later.
- A deadline passes the word to Sluice only if the broker is silent (see `proxy.core.node_health`). A wait that is
  cut (`Plan.cut`) ends at its deadline in any case: the client asked for more than anyone is granted.
- A broker's own answer is not thrown away twice running: after that has happened, the session is `patient`, and
  the next request of its kind waits for the broker's answer.
- Whatever is owed longer than the request timeout ends the session: a reply, the rest of a reply, and the taking
  of a request. A client that does not read is no fault of the broker's; nor is one that is still sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.errors import CloseReason
from proxy.core.session.exchange import AnsweredExchange, Exchange, SwallowedExchange
from proxy.core.session.state import NEVER_MS, STREAM
from wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.core.session.ending import SessionEnd

TRACKED = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))
LOOK_RARELY_MS = 60_000
NO_DEADLINE_MS = 1 << 60
"""No point in time that comes."""


def due_ms(s: SessionEnd, exchange: Exchange) -> int:
    """When the oldest unanswered request is to be answered here; NO_DEADLINE_MS: only the broker can."""
    plan = exchange.plan
    if not plan.wait_ms:
        return NO_DEADLINE_MS
    arrived_ms = exchange.arrived_ms
    own_ms = max(arrived_ms, s.replied_ms) + plan.wait_ms
    if plan.cut:
        return own_ms
    if s.patient:
        return NO_DEADLINE_MS
    silence_ms = s.engine.graces.silence_ms
    if not silence_ms:
        return own_ms
    # A request may not stay unanswered for longer than the request timeout: an answer is better than the end.
    silence_ms = min(silence_ms, s.engine.request_timeout_ms or silence_ms)
    return max(own_ms, s.node.silent_since_ms(arrived_ms) + silence_ms)


def is_passing(s: SessionEnd, exchange: Exchange, place: int) -> bool:
    """Whether the request at `place` is being answered, or has not gone out yet."""
    return bool(place == 0 and s.reply_left) or exchange is half_sent(s)


def half_sent(s: SessionEnd) -> Exchange | None:
    """The request of which the client has not sent everything yet, while it streams."""
    return s.passing if s.request_left and s.request_mode == STREAM else None


def watch(s: SessionEnd, now_ms: int) -> None:
    """Something was forwarded, and the timer is not early enough for it."""
    if s.timer is not None:
        s.timer.cancel()
        s.timer = None
    if s.shortest_wait_ms < NEVER_MS:
        s.timer = s.engine.timers.arm(now_ms + s.shortest_wait_ms, s.look_at_queue)


def watch_unsent(s: SessionEnd) -> None:
    """Bytes wait for the broker to take them; perhaps no reply is due to them (acks=0)."""
    timeout_ms, now_ms = s.engine.request_timeout_ms, s.engine.now_ms
    s.taken_bytes, s.taken_ms = s.client.sent_bytes + s.broker.sent_bytes, now_ms
    if timeout_ms and s.timer is None and not s.ended:
        s.timer = s.engine.timers.arm(now_ms + timeout_ms, s.look_at_queue)


def overdue(s: SessionEnd, now_ms: int, unread_bytes: int) -> str:
    """What has been owed for longer than the request timeout, in words; empty: nothing.

    `unread_bytes` of replies were there before this look that the client has not taken.
    """
    timeout_ms = s.engine.request_timeout_ms
    if not timeout_ms:
        return ""
    unsent_bytes = s.broker.unsent_bytes
    if unread_bytes or unsent_bytes:
        taken_bytes = s.client.sent_bytes + s.broker.sent_bytes
        if s.taken_bytes != taken_bytes:
            s.taken_bytes, s.taken_ms = taken_bytes, now_ms
        if unread_bytes and not s.ending:
            s.replied_ms = now_ms  # the broker is not read meanwhile
            return ""
        stuck_ms = now_ms - s.taken_ms
        if stuck_ms < timeout_ms:
            return ""
        if unread_bytes:
            return f"{unread_bytes} bytes of replies not taken for {stuck_ms} ms"
        return f"{unsent_bytes} bytes of requests not taken for {stuck_ms} ms"
    if s.reply_left:
        owed_ms = now_ms - s.replied_ms
        if owed_ms < timeout_ms:
            return ""
        return f"a reply stopped {s.reply_left} bytes before its end, for {owed_ms} ms"
    if not s.queue:
        return ""
    head = s.queue[0]
    if isinstance(head, AnsweredExchange) or head is half_sent(s):
        return ""
    name = "a question of Sluice"
    if isinstance(head, SwallowedExchange):
        name = "a request that was answered here"
    elif isinstance(head, Exchange):
        api = head.plan.api
        if api.may_wait and api.key not in TRACKED and not s.ending:
            return ""  # it may wait without a deadline, as long as its client does
        timeout_ms = max(timeout_ms, head.plan.wait_ms)
        name = api.name
    owed_ms = now_ms - max(head.arrived_ms, s.replied_ms)
    return f"{name} unanswered for {owed_ms} ms" if owed_ms >= timeout_ms else ""


def end_if_overdue(s: SessionEnd, now_ms: int, unread_bytes: int) -> bool:
    """End the session if the broker has owed something for too long; whether it has."""
    what = overdue(s, now_ms, unread_bytes)
    if not what:
        return False
    s.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, what, now_ms)
    s.engine.attend(s)
    return True


def arm(s: SessionEnd, now_ms: int) -> None:
    """Set the timer again, for what is owed now. What comes later sees to itself (`watch`).

    Requests behind the oldest one become the oldest at a time that is not known. They are looked at after the
    shortest wait of this session, and ever more rarely: after a quarter of the time that the oldest has been owed.
    """
    timeout_ms = s.engine.request_timeout_ms
    soonest_ms = now_ms + (timeout_ms or LOOK_RARELY_MS)
    if timeout_ms and (s.client.unsent_bytes or s.broker.unsent_bytes):
        soonest_ms = now_ms + max(timeout_ms >> 2, 1)
    if s.queue:
        head = s.queue[0]
        if not isinstance(head, AnsweredExchange):
            owed_since_ms = max(head.arrived_ms, s.replied_ms)
            hangs_ms = owed_since_ms + timeout_ms
            if timeout_ms and isinstance(head, Exchange):
                hangs_ms = owed_since_ms + max(timeout_ms, head.plan.wait_ms)
            if timeout_ms and hangs_ms > now_ms:
                soonest_ms = min(soonest_ms, hangs_ms)
            if len(s.queue) > 1:
                again_ms = max(s.shortest_wait_ms, now_ms - owed_since_ms >> 2)
                soonest_ms = min(soonest_ms, now_ms + min(again_ms, LOOK_RARELY_MS))
        soonest_ms = min(soonest_ms, _next_due_ms(s, now_ms))
    s.timer = s.engine.timers.arm(soonest_ms, s.look_at_queue)


def unanswered(s: SessionEnd) -> int:
    """The place in the queue of the first that was not answered here."""
    place = 0
    for each in s.queue:
        if not isinstance(each, SwallowedExchange):
            break
        place += 1
    return place


def _next_due_ms(s: SessionEnd, now_ms: int) -> int:
    place = unanswered(s)
    if place < len(s.queue):
        exchange = s.queue[place]
        if isinstance(exchange, Exchange) and not is_passing(s, exchange, place):
            at_ms = due_ms(s, exchange)
            if at_ms > now_ms:
                return at_ms
    return NO_DEADLINE_MS


def only_waits(s: SessionEnd) -> bool:
    """Whether all that is unanswered may wait at the broker as long as it likes, and nobody else can answer it."""
    return all(
        isinstance(exchange, SwallowedExchange)
        or (
            isinstance(exchange, Exchange)
            and exchange.plan.api.may_wait
            and not exchange.plan.wait_ms
        )
        for exchange in s.queue
    ) and not (s.reply_left or s.client.unsent_bytes)
