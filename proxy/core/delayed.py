"""DelayedProduce and DelayedFetch: requests that wait at the broker, and are answered here if it lets them down.

Rules:
- Tracked are acks=all produces and fetches that may wait, from the moment they are forwarded. Each has a
  deadline: its own timeout and a grace, both known from its plan.
- Replies leave in order, so only the oldest unanswered request of a session can be answered here. One
  timer a session stands for all of them: it is set for the soonest deadline that may come up.
- A produce is answered with REQUEST_TIMED_OUT for each partition: nobody knows whether it was written.
  A fetch is answered empty, without an error, without a session (see `wire.fetch`).
- The broker's late reply is swallowed. What follows is paired as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.answers import frame_of
from proxy.core.errors import CloseReason
from proxy.core.exchanges import Exchange, SwallowedExchange
from proxy.core.replies import let_go
from wire import fetch, produce_skeleton
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.header import body_at
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from proxy.core.ending import SessionEnd
    from wire.apis import Api

KEEP_MOST_BYTES = 1024
"""A whole request up to this size is kept as it is; of a larger one only its topics and partitions."""
EMPTY_THROTTLE_MS = 1
"""In an empty fetch: clients take it for a throttle, not for a broker's fault."""
LOOK_RARELY_MS = 60_000
LOOK_AGAIN_MS = 20
"""How soon to look again when one that is overdue stands behind one that is not."""


@dataclass(frozen=True, slots=True)
class Graces:
    """How long after its own timeout a request is answered here. `most_ms` caps hostile timeouts."""

    produce_ms: int = -500
    fetch_ms: int = 1000
    most_ms: int = 120_000

    def produce_wait_ms(self, timeout_ms: int) -> int:
        """The whole wait of a produce. A negative grace takes half of the timeout at most."""
        timeout_ms = min(max(timeout_ms, 0), self.most_ms)
        return max(timeout_ms + max(self.produce_ms, -timeout_ms // 2), 1)

    def fetch_wait_ms(self, max_wait_ms: int) -> int:
        """The whole wait of a fetch."""
        return max(min(max_wait_ms, self.most_ms) + self.fetch_ms, 1)


@dataclass(slots=True)
class Expired:
    """How many were answered here."""

    produce: int = 0
    fetch: int = 0


def watch(s: SessionEnd, now_ms: int) -> None:
    """Set the session's timer, for what may come up first."""
    engine = s.engine
    waits = [each for each in (s.shortest_wait_ms, engine.request_timeout_ms) if each]
    if waits:
        s.timer = engine.timers.arm(now_ms + min(waits), s.look_at_queue)


def look(s: SessionEnd, now_ms: int) -> None:
    """The session's timer: answer what is overdue, end what hangs, and set the timer again."""
    s.timer = None
    if s.ended:
        return
    expire(s, now_ms)
    if s.ending:
        s.maybe_end()
    if _is_over(s):
        return
    if s.queue and not _hangs(s, now_ms):
        _arm(s, now_ms)


def expire(s: SessionEnd, now_ms: int, *, draining: bool = False) -> None:
    """Answer here, oldest first, whatever is overdue (`draining`: and each fetch that still waits)."""
    while (place := _first_unanswered(s)) < len(s.queue):
        exchange = s.queue[place]
        if not isinstance(exchange, Exchange) or not exchange.plan.wait_ms:
            return
        if (place == 0 and s.reply_left) or (s.request_left and exchange is s.passing):
            return  # it is being answered, or has not gone out yet
        api = exchange.plan.api
        early = draining and api.key == ApiKey.FETCH
        if not early and now_ms < exchange.arrived_ms + exchange.plan.wait_ms:
            return
        try:
            body = _body(exchange)
        except WireError as error:  # what was kept cannot be read: nobody could answer it
            s.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, str(error), now_ms)
            s.engine.attend(s)
            return
        reply = frame_of(s, exchange, body, now_ms)
        s.queue[place] = SwallowedExchange(exchange.correlation_id, exchange.arrived_ms)
        s.unusual_replies += 1
        s.client.put(reply)
        s.engine.attending.append(s)
        if not early:
            counts = s.engine.expired
            if api.key == ApiKey.FETCH:
                counts.fetch += 1
            else:
                counts.produce += 1
            s.engine.observer.on_expired(exchange.plan.peer, api.name)
        s.complete(exchange, Outcome.ANSWERED if early else Outcome.EXPIRED, now_ms)
        let_go(s, place + 1, now_ms)


def keep(exchange: Exchange, buf: bytearray, pos: int, stop: int) -> None:
    """Remember of the whole Produce frame in buf[pos:stop] what a reply would have to say.

    Raises WireError for one that is malformed.
    """
    if stop - pos <= KEEP_MOST_BYTES:  # the fast loop does this by itself
        exchange.kept = buf[pos:stop]
        return
    plan = exchange.plan
    at = pos + 12 + len(plan.usual)
    version = plan.api.version
    end = produce_skeleton.head_end(buf, at, stop, version)
    exchange.kept = (
        buf[pos:end]
        if 0 < end <= pos + KEEP_MOST_BYTES
        else produce_skeleton.topics(buf, at, stop, version)
    )


def wait_ms(graces: Graces, api: Api, timeout_ms: int) -> int:
    """The deadline of requests of this kind, from their arrival."""
    if api.key == ApiKey.FETCH:
        return graces.fetch_wait_ms(timeout_ms)
    return graces.produce_wait_ms(timeout_ms)


def _body(exchange: Exchange) -> bytes:
    api = exchange.plan.api
    if api.key == ApiKey.FETCH:
        return fetch.empty_reply(api, EMPTY_THROTTLE_MS)
    kept = exchange.kept
    if isinstance(kept, bytearray):
        at = body_at(kept, 0, len(kept), api.request_header_version)
        if at is None:
            raise WireError("a Produce head longer than its frame")
        walker = ProduceWalker(api.version)
        walker.feed(kept, at, len(kept))
        kept = walker
    topics = kept.topics if isinstance(kept, ProduceWalker) else kept or ()
    return produce_skeleton.reply(api, topics, ErrorCode.REQUEST_TIMED_OUT)


def _first_unanswered(s: SessionEnd) -> int:
    place = 0
    for exchange in s.queue:
        if not isinstance(exchange, SwallowedExchange):
            break
        place += 1
    return place


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
        if head.plan.api.may_wait:
            return False  # it has a deadline of its own
        name = head.plan.api.name
    # The broker answers in order, so the head has been its business since the reply before it.
    owed_ms = now_ms - max(head.arrived_ms, s.replied_ms)
    if owed_ms < timeout_ms:
        return False
    s.end(CloseReason.UPSTREAM_REQUEST_TIMEOUT, f"{name} unanswered for {owed_ms} ms", now_ms)
    s.engine.attend(s)
    return True


def _arm(s: SessionEnd, now_ms: int) -> None:
    """Set the timer again: for what may come up first, of what waits and of what may yet arrive."""
    timeout_ms = s.engine.request_timeout_ms
    waits = [each for each in (s.shortest_wait_ms, timeout_ms) if each]
    soonest_ms = now_ms + min(waits, default=LOOK_RARELY_MS)
    head = s.queue[0]
    if timeout_ms and isinstance(head, Exchange | SwallowedExchange):
        due_ms = max(head.arrived_ms, s.replied_ms) + timeout_ms
        if due_ms > now_ms:
            soonest_ms = min(soonest_ms, due_ms)
    for exchange in s.queue:
        if isinstance(exchange, Exchange) and exchange.plan.wait_ms:
            due_ms = exchange.arrived_ms + exchange.plan.wait_ms
            soonest_ms = min(soonest_ms, max(due_ms, now_ms + LOOK_AGAIN_MS))
    s.timer = s.engine.timers.arm(soonest_ms, s.look_at_queue)
