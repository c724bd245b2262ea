"""DelayedProduce and DelayedFetch: requests that wait at the broker, and are answered here if it lets them down.

Rules:
- Tracked are acks=all produces and fetches that may wait, from the moment they are forwarded. Each has a
  deadline: its own timeout and a grace, both known from its plan. `proxy.core.session.deadlines` says when it counts.
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
from proxy.core.errors import ClientProtocolError, CloseReason
from proxy.core.session import deadlines, in_flight
from proxy.core.session.body_walk import produced, unread
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange, SwallowedExchange
from proxy.core.session.local_replies import frame_of
from proxy.core.session.reply_stream import let_go
from wire import fetch, produce_partitions
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.header import body_at
from wire.primitives import ELEMENT_BUDGET
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from proxy.core.session.ending import SessionEnd

MAX_KEPT_BYTES = 1024
"""A whole request up to this size is kept as it is; of a larger one only its topics and partitions."""
MIN_WAIT_MS = 100
"""Whatever a request asks for, the broker gets so much time: a race with it would only make duplicates."""
EMPTY_THROTTLE_MS = 1
"""In an empty fetch: clients take it for a throttle, not for a broker's fault."""
MAX_ANSWERS = 256
"""So many replies of one session are made here in one turn (2 to 3 ms); the others have to be served, too."""
WALK_STEPS_MAX = 1024
"""How far a walker goes at once."""
LABOUR_STEP_BYTES = 8
"""What each step of a walker counts as labour of the turn (`proxy.core.session.request_stream`)."""
_SIZE_BYTES = 5
"""At most, of the records' own size: a partition is one when that is there."""


@dataclass(frozen=True, slots=True)
class GraceTimes:
    """How long after its own timeout a request is answered here. `max_ms` caps hostile timeouts."""

    produce_ms: int = -500
    fetch_ms: int = 1000
    max_ms: int = 120_000
    silence_ms: int = 0
    """And how long the broker must have been silent; 0: that is not asked."""

    def produce_wait_ms(self, timeout_ms: int) -> int:
        """The whole wait of a produce. A negative grace takes half of the timeout at most."""
        timeout_ms = min(max(timeout_ms, 0), self.max_ms)
        return max(timeout_ms + max(self.produce_ms, -timeout_ms // 2), MIN_WAIT_MS)

    def fetch_wait_ms(self, max_wait_ms: int) -> int:
        """The whole wait of a fetch."""
        return max(min(max_wait_ms, self.max_ms) + self.fetch_ms, MIN_WAIT_MS)


@dataclass(slots=True)
class Expired:
    """How many were answered here."""

    produce: int = 0
    fetch: int = 0
    clamped: int = 0
    """Kinds of requests, of all sessions, whose own timeout was beyond `GraceTimes.max_ms`."""


def look(s: SessionEnd, now_ms: int) -> None:
    """The session's timer: answer what is overdue, end what hangs, and set the timer again."""
    s.timer = None
    if s.ended:
        return
    unread_bytes = s.client.unsent_bytes  # before anything is answered here
    if s.broker.muted & Mute.OUT_OF_MEMORY:  # its reply waits for memory here, so it is not silent
        s.replied_ms = s.node.heard_ms = now_ms
    expire(s, now_ms)
    if s.ending:
        s.maybe_end()
    if _is_over(s) or deadlines.end_if_overdue(s, now_ms, unread_bytes):
        return
    if s.timer is None and (s.queue or s.broker.unsent_bytes):
        deadlines.arm(s, now_ms)


def expire(s: SessionEnd, now_ms: int, *, draining: bool = False) -> None:
    """Answer here, oldest first, whatever is overdue (`draining`: and each fetch that still waits).

    After MAX_ANSWERS the session has another turn a millisecond later. It does not raise: a policy's fault
    ends this session, as ever.
    """
    queue = s.queue
    place = deadlines.unanswered(s)
    answered = 0
    while place < len(queue):
        exchange = queue[place]
        if isinstance(exchange, SwallowedExchange | ProxyExchange):
            place += 1
            continue
        if isinstance(exchange, AnsweredExchange):  # behind a question of our own
            let_go(s, place, now_ms)
            s.engine.attend(s)
            continue
        if not exchange.plan.wait_ms or deadlines.is_passing(s, exchange, place):
            break
        early = draining and exchange.plan.api.key == ApiKey.FETCH
        if not early and now_ms < deadlines.due_ms(s, exchange):
            break
        if answered == MAX_ANSWERS:
            _look_at_once(s, now_ms)
            return
        if not answered:
            s.engine.attend(s)
        answered += 1
        queue[place] = SwallowedExchange(exchange.correlation_id, now_ms)
        s.unusual_replies += 1
        if early or exchange.plan.cut:
            s.node.on_answered_here()
        else:
            s.node.on_answered_here(exchange.arrived_ms)
        if not _answer(s, exchange, now_ms, early=early):
            return
        place += 1
    if answered:
        in_flight.recount(s)


def _look_at_once(s: SessionEnd, now_ms: int) -> None:
    if s.timer is not None:
        s.timer.cancel()
    s.timer = s.engine.timers.arm(now_ms + 1, s.look_at_queue)


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
            s.trace_of(exchange)
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


def keep(
    exchange: Exchange, buf: bytearray, pos: int, stop: int, steps: int = ELEMENT_BUDGET
) -> int:
    """Remember of the whole Produce frame in buf[pos:stop] what a reply would have to say.

    Returns what is left of `steps`, the topics, partitions and tagged fields that may be visited. A
    negative number: they were not enough, or the frame cannot be read, and nothing is kept.
    """
    if stop - pos <= MAX_KEPT_BYTES:  # the fast loop does this by itself
        exchange.kept = buf[pos:stop]
        return steps
    plan = exchange.plan
    at = pos + 12 + len(plan.usual)
    version = plan.api.version
    end = produce_partitions.single_partition_head_end(buf, at, stop, version)
    if 0 < end <= pos + MAX_KEPT_BYTES - _SIZE_BYTES:
        exchange.kept = buf[pos : end + _SIZE_BYTES]
        return steps
    try:
        found, left = produce_partitions.read_topics(buf, at, stop, version, steps)
    except WireError:
        return -1
    exchange.kept = produce_partitions.pack(found)
    return left


def lose(exchange: Exchange) -> None:
    """It cannot be read, or has too many partitions or tags: it passes, and the broker alone answers it."""
    exchange.plan = exchange.plan.waiting(0)
    exchange.kept = None


def sent(exchange: Exchange, now_ms: int) -> None:
    """The broker has it only now: it was held here, or took its time to come.

    The client of a Produce has been counting all the while, so of its wait no more than half is given anew.
    """
    plan = exchange.plan
    since_ms = now_ms - plan.wait_ms // 2 if plan.keeps else now_ms
    exchange.arrived_ms = max(exchange.arrived_ms, since_ms)


def walk(
    s: SessionEnd, walker: ProduceWalker, buf: bytearray, pos: int, size_bytes: int, now_ms: int
) -> tuple[int, int]:
    """Read on in a Produce that streams: how many of `size_bytes` are taken, and what they cost as labour.

    Fewer are taken after WALK_STEPS_MAX steps. Policies that asked for its head cannot do without it. Without
    such a policy the rest of a body that cannot be read passes unread.
    """
    steps = walker.steps
    stop = pos + size_bytes
    try:
        stop = walker.feed(buf, pos, stop, WALK_STEPS_MAX)
    except WireError:
        if s.passing is None or s.passing.plan.hooks.need is not Need.HEADER:
            raise
        lose(s.passing)
        s.walker = None
        unread(s)
    if s.walker is not None and stop - pos == s.request_left:
        _walked(s, walker, now_ms)
    return stop - pos, (walker.steps - steps) * LABOUR_STEP_BYTES


def _walked(s: SessionEnd, walker: ProduceWalker, now_ms: int) -> None:
    """Its last byte is about to go on."""
    produced(s, walker)
    passing = s.passing
    if not walker.done:
        if passing is None or passing.plan.hooks.need is not Need.HEADER:
            raise ClientProtocolError("a Produce body that ends inside its fields")
        lose(passing)
    elif passing is not None:
        _have(passing, walker, now_ms)
        in_flight.count_kept(s, passing)


def _have(exchange: Exchange, walker: ProduceWalker, now_ms: int) -> None:
    """The last byte of a Produce that streamed has gone out."""
    sent(exchange, now_ms)
    if exchange.plan.keeps:
        exchange.kept = produce_partitions.pack(walker.topics)
        if exchange.plan.hooks.need is Need.HEADER:
            exchange.head = None  # nobody asked for it


def _body(exchange: Exchange) -> bytes:
    api = exchange.plan.api
    if api.key == ApiKey.FETCH:
        return fetch.empty_reply(api, EMPTY_THROTTLE_MS)
    return produce_partitions.error_reply(api, _topics(exchange), ErrorCode.REQUEST_TIMED_OUT)


def _topics(exchange: Exchange) -> produce_partitions.Topics:
    api, kept = exchange.plan.api, exchange.kept
    if isinstance(kept, bytes):
        return produce_partitions.unpack(kept, api.version)
    if isinstance(kept, bytearray):
        at = body_at(kept, 0, len(kept), api.request_header_version)
        if at is None:
            raise WireError("a Produce head longer than its frame")
        walker = ProduceWalker(api.version)
        walker.feed(kept, at, len(kept))
        return walker.topics
    return kept.topics if kept is not None else ()


def _is_over(s: SessionEnd) -> bool:
    return s.ended
