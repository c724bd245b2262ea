"""DelayedProduce and DelayedFetch: requests that wait at the broker, and are answered here if it lets them down.

Rules:
- Tracked are acks=all produces and fetches that may wait, from the moment they are forwarded. Each has a
  deadline: its own timeout and a grace, both known from its plan.
- Replies leave in order, so only the oldest unanswered request of a session can be answered here. One
  timer a session stands for all of them: no deadline comes up before it, and a read sees to that.
- A produce is answered with REQUEST_TIMED_OUT for each partition: nobody knows whether it was written.
  A fetch is answered empty, without an error, without a session (see `wire.fetch`).
- The broker's late reply is swallowed. What follows is paired as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.api import Need, Outcome
from proxy.core.answers import frame_of
from proxy.core.errors import ClientProtocolError, CloseReason
from proxy.core.exchanges import AnsweredExchange, Exchange, OwnExchange, SwallowedExchange
from proxy.core.replies import let_go
from proxy.core.state import NEVER_MS, STREAM
from proxy.core.walking import produced, unread
from wire import fetch, produce_skeleton
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.header import body_at
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from proxy.core.ending import SessionEnd

KEEP_MOST_BYTES = 1024
"""A whole request up to this size is kept as it is; of a larger one only its topics and partitions."""
_TRACKED = frozenset((ApiKey.PRODUCE, ApiKey.FETCH))
LEAST_MS = 100
"""Whatever a request asks for, the broker gets so much time: a race with it would only make duplicates."""
EMPTY_THROTTLE_MS = 1
"""In an empty fetch: clients take it for a throttle, not for a broker's fault."""
LOOK_RARELY_MS = 60_000
LOOK_AGAIN_MS = 20
"""How soon at least to look again when one that is overdue stands behind one that is not; the longer
it is overdue, the less often (a quarter of that).
"""
_SIZE_BYTES = 5
"""At most, of the records' own size: a partition is one when that is there."""


@dataclass(frozen=True, slots=True)
class Graces:
    """How long after its own timeout a request is answered here. `most_ms` caps hostile timeouts."""

    produce_ms: int = -500
    fetch_ms: int = 1000
    most_ms: int = 120_000

    def produce_wait_ms(self, timeout_ms: int) -> int:
        """The whole wait of a produce. A negative grace takes half of the timeout at most."""
        timeout_ms = min(max(timeout_ms, 0), self.most_ms)
        return max(timeout_ms + max(self.produce_ms, -timeout_ms // 2), LEAST_MS)

    def fetch_wait_ms(self, max_wait_ms: int) -> int:
        """The whole wait of a fetch."""
        return max(min(max_wait_ms, self.most_ms) + self.fetch_ms, LEAST_MS)


@dataclass(slots=True)
class Expired:
    """How many were answered here."""

    produce: int = 0
    fetch: int = 0
    clamped: int = 0
    """Kinds of requests, of all sessions, whose own timeout was beyond `Graces.most_ms`."""


def watch(s: SessionEnd, now_ms: int) -> None:
    """Something was forwarded, and the timer is not early enough for it."""
    if s.timer is not None:
        s.timer.cancel()
        s.timer = None
    if s.shortest_wait_ms < NEVER_MS:
        s.timer = s.engine.timers.arm(now_ms + s.shortest_wait_ms, s.look_at_queue)


def look(s: SessionEnd, now_ms: int) -> None:
    """The session's timer: answer what is overdue, end what hangs, and set the timer again."""
    s.timer = None
    if s.ended:
        return
    expire(s, now_ms)
    if s.ending:
        s.maybe_end()
    if s.queue and not (_is_over(s) or _hangs(s, now_ms)):
        _arm(s, now_ms)


def expire(s: SessionEnd, now_ms: int, *, draining: bool = False) -> None:
    """Answer here, oldest first, whatever is overdue (`draining`: and each fetch that still waits).

    It does not raise: a policy's fault ends this session, as ever.
    """
    queue = s.queue
    place = 0
    attended = False
    while place < len(queue):
        exchange = queue[place]
        if isinstance(exchange, SwallowedExchange | OwnExchange):
            place += 1
            continue
        if isinstance(exchange, AnsweredExchange):  # behind a question of our own
            let_go(s, place, now_ms)
            s.engine.attend(s)
            continue
        if not exchange.plan.wait_ms or _is_passing(s, exchange, place):
            return
        early = draining and exchange.plan.api.key == ApiKey.FETCH
        if not early and now_ms < exchange.arrived_ms + exchange.plan.wait_ms:
            return
        if not attended:
            attended = True
            s.engine.attend(s)
        queue[place] = SwallowedExchange(exchange.correlation_id, now_ms)
        s.unusual_replies += 1
        if not _answer(s, exchange, now_ms, early=early):
            return
        place += 1


def _is_passing(s: SessionEnd, exchange: Exchange, place: int) -> bool:
    """Whether it is being answered, or has not gone out yet."""
    return bool(place == 0 and s.reply_left) or exchange is _half_sent(s)


def _half_sent(s: SessionEnd) -> Exchange | None:
    return s.passing if s.request_left and s.request_mode == STREAM else None


def _answer(s: SessionEnd, exchange: Exchange, now_ms: int, *, early: bool) -> bool:
    """Reply from here; False: that went wrong, and the session has ended."""
    try:
        body = _body(exchange)
    except WireError as error:  # what was kept cannot be read: nobody could answer it
        s.complete(exchange, Outcome.DISCONNECTED, now_ms)
        s.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, str(error), now_ms)
        return False
    try:
        if not early:
            s.trail_of(exchange)
        reply = frame_of(s, exchange, body, now_ms, forwarded=True)  # completes it if it raises
    except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
        s.fail(fault, CloseReason.INTERNAL)
        return False
    s.client.put(reply)
    waited_us = s.engine.now_us - exchange.arrived_us
    exchange.plan.meter.left("drained" if early else "expired", waited_us)
    if not early:
        api = exchange.plan.api
        counts = s.engine.expired
        if api.key == ApiKey.FETCH:
            counts.fetch += 1
        else:
            counts.produce += 1
        s.engine.observer.on_expired(exchange.plan.peer, api.name)
    s.complete(exchange, Outcome.ANSWERED if early else Outcome.EXPIRED, now_ms)
    return True


def keep(exchange: Exchange, buf: bytearray, pos: int, stop: int) -> None:
    """Remember of the whole Produce frame in buf[pos:stop] what a reply would have to say."""
    if stop - pos <= KEEP_MOST_BYTES:  # the fast loop does this by itself
        exchange.kept = buf[pos:stop]
        return
    plan = exchange.plan
    at = pos + 12 + len(plan.usual)
    version = plan.api.version
    end = produce_skeleton.head_end(buf, at, stop, version)
    if 0 < end <= pos + KEEP_MOST_BYTES - _SIZE_BYTES:
        exchange.kept = buf[pos : end + _SIZE_BYTES]
        return
    try:
        exchange.kept = produce_skeleton.pack(produce_skeleton.topics(buf, at, stop, version))
    except WireError:
        _lose(exchange)


def _lose(exchange: Exchange) -> None:
    """It cannot be read, or has too many partitions: it passes all the same, and the broker alone answers it."""
    exchange.plan = exchange.plan.waiting(0)
    exchange.kept = None


def sent(exchange: Exchange, now_ms: int) -> None:
    """The broker has it only now: it was held here, or took its time to come.

    The client of a Produce has been counting all the while, so of its wait no more than half is given anew.
    """
    plan = exchange.plan
    since_ms = now_ms - plan.wait_ms // 2 if plan.keeps else now_ms
    exchange.arrived_ms = max(exchange.arrived_ms, since_ms)


def walk(s: SessionEnd, walker: ProduceWalker, buf: bytearray, pos: int, stop: int) -> None:
    """Read on in a Produce that streams. Whoever asked to see it cannot do without; we can."""
    try:
        walker.feed(buf, pos, stop)
    except WireError:
        if s.passing is None or s.passing.plan.hooks.need is not Need.HEADER:
            raise
        _lose(s.passing)
        s.walker = None
        unread(s)


def walked(s: SessionEnd, walker: ProduceWalker, now_ms: int) -> None:
    """Its last byte has gone on."""
    produced(s, walker)
    passing = s.passing
    if not walker.done:
        if passing is None or passing.plan.hooks.need is not Need.HEADER:
            raise ClientProtocolError("a Produce body that ends inside its fields")
        _lose(passing)
    elif passing is not None:
        _have(passing, walker, now_ms)


def _have(exchange: Exchange, walker: ProduceWalker, now_ms: int) -> None:
    """The last byte of a Produce that streamed has gone out."""
    sent(exchange, now_ms)
    if exchange.plan.keeps:
        exchange.kept = produce_skeleton.pack(walker.topics)
        if exchange.plan.hooks.need is Need.HEADER:
            exchange.head = None  # nobody asked for it


def _body(exchange: Exchange) -> bytes:
    api = exchange.plan.api
    if api.key == ApiKey.FETCH:
        return fetch.empty_reply(api, EMPTY_THROTTLE_MS)
    return produce_skeleton.reply(api, _topics(exchange), ErrorCode.REQUEST_TIMED_OUT)


def _topics(exchange: Exchange) -> produce_skeleton.Topics:
    api, kept = exchange.plan.api, exchange.kept
    if isinstance(kept, bytes):
        return produce_skeleton.unpack(kept, api.version)
    if isinstance(kept, bytearray):
        at = body_at(kept, 0, len(kept), api.request_header_version)
        if at is None:
            raise WireError("a Produce head longer than its frame")
        walker = ProduceWalker(api.version)
        walker.feed(kept, at, len(kept))
        return walker.topics
    return kept.topics if kept is not None else ()


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


def _is_over(s: SessionEnd) -> bool:
    return s.ended


def _hangs(s: SessionEnd, now_ms: int) -> bool:
    """Whether the broker has owed its oldest reply for too long; then the session ends."""
    head, timeout_ms = s.queue[0], s.engine.request_timeout_ms
    if not timeout_ms or not isinstance(head, Exchange | SwallowedExchange):
        return False
    if s.reply_left or s.client.unsent_bytes:
        return False  # it is being answered
    name = "a request that was answered here"
    if isinstance(head, Exchange):
        api = head.plan.api
        if head.plan.wait_ms or (api.may_wait and api.key not in _TRACKED):
            return False  # it has a deadline of its own, or may wait without one
        name = api.name
    # The broker answers in order, so the head has been its business since the reply before it (a
    # swallowed one: since it was swallowed, for until then it had a deadline).
    owed_ms = now_ms - max(head.arrived_ms, s.replied_ms)
    if owed_ms < timeout_ms:
        return False
    s.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, f"{name} unanswered for {owed_ms} ms", now_ms)
    s.engine.attend(s)
    return True


def _arm(s: SessionEnd, now_ms: int) -> None:
    """Set the timer again, for what is in the queue."""
    timeout_ms = s.engine.request_timeout_ms
    soonest_ms = now_ms + (timeout_ms or LOOK_RARELY_MS)
    head = s.queue[0]
    if timeout_ms and isinstance(head, Exchange | SwallowedExchange):
        due_ms = max(head.arrived_ms, s.replied_ms) + timeout_ms
        if due_ms > now_ms:
            soonest_ms = min(soonest_ms, due_ms)
    half_sent = _half_sent(s)
    for exchange in s.queue:
        if isinstance(exchange, Exchange) and exchange.plan.wait_ms and exchange is not half_sent:
            due_ms = exchange.arrived_ms + exchange.plan.wait_ms
            if due_ms <= now_ms:
                late_ms = now_ms - due_ms
                due_ms = now_ms + min(max(late_ms >> 2, LOOK_AGAIN_MS), LOOK_RARELY_MS)
            soonest_ms = min(soonest_ms, due_ms)
    s.timer = s.engine.timers.arm(soonest_ms, s.look_at_queue)
