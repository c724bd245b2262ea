"""What a session is made of: its two channels, its exchanges in order, and what is passing just now.

Rules:
- `unusual_requests` and `unusual_replies` say that the fast loops must not settle anything by themselves;
  whoever needs that sets them, and `look_again` says when it is over.
- A client is muted between two requests, never inside one: what is wanted earlier waits in `mute_wanted`.
- Bytes read behind a mute stay in the channel's `carry`, counted; they are taken up in a turn of their
  own when the last reason is gone.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from policies.api import FORWARD, Outcome, Throttle
from policies.chain import ASKED_ALL, COMPLETED, PolicyFault
from policies.verdicts import check_request, check_response
from proxy.core.errors import ORDINARY
from proxy.core.session.account import SessionAccount
from proxy.core.session.channel import STOPS_PARSING, Channel, Mute
from proxy.core.session.exchange import Exchange

if TYPE_CHECKING:
    from policies.api import Peer, QuotaViolation, Response, Verdict
    from proxy.core.engine import Engine
    from proxy.core.errors import CloseReason
    from proxy.core.memory.reservations import Line, Share
    from proxy.core.node_health import NodeHealth
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.exchange import InsertedRequest
    from proxy.core.session.held_request import HeldRequest
    from proxy.core.session.identity import Identity
    from proxy.core.session.in_flight import InFlight
    from proxy.core.session.plan import Plan
    from wire.fetch_topics import FetchTopics
    from wire.produce import ProduceWalker
    from wire.topic_names import TopicNames

_new_exchange = Exchange.__new__
UNCOUNTED = 16
"""So many requests of a connection may wait for replies before what they cost is counted: deeper than the
pipelines of the usual clients (Java: 5)."""
STREAM, DROP, GATHER = range(3)
"""What is done with the bytes of the request that is passing: see `proxy.core.session.request_stream`."""
NEVER_MS = 1 << 40


class Settled:
    """What of a read is settled and not handed on yet: buf[start:stop]. A fault loses nothing of it."""

    __slots__ = ("start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop


class Pending(NamedTuple):
    """A request that is not begun yet, and what was already decided about it: nothing, or a verdict to be
    done when its bytes' turn comes; or how the policy that held it has failed (of which all are told).
    """

    exchange: Exchange
    verdict: Verdict | PolicyFault | None


class SessionState(SessionAccount):
    """See the module. `Session` adds the two directions, `SessionEnd` how it ends."""

    __slots__ = (
        "attention",
        "authenticating",
        "broker",
        "detail",
        "draining",
        "ended",
        "ending",
        "exchange_ids",
        "handle",
        "head_reserved",
        "held",
        "holds",
        "identity",
        "in_flight",
        "judged",
        "keeps",
        "line",
        "mute_wanted",
        "node",
        "patient",
        "pending",
        "plans",
        "questions",
        "read_timer",
        "reading_ms",
        "ready",
        "reason",
        "replied_ms",
        "reply_bytes",
        "reply_counted",
        "reply_dropped",
        "reply_gathered",
        "reply_left",
        "reply_try_bytes",
        "reply_walker",
        "request_gathered",
        "request_left",
        "request_mode",
        "reserved_bytes",
        "share",
        "shortest_wait_ms",
        "taken_bytes",
        "taken_ms",
        "throttle_timer",
        "throttled_by",
        "throttled_until_ms",
        "timer",
        "uncounted",
        "unusual_replies",
        "unusual_requests",
        "walker",
    )

    def __init__(self, engine: Engine, peer: Peer) -> None:
        super().__init__(engine, peer)
        # what waits for the client are replies, what was read of it are requests
        self.client = Channel(engine.reply_pool, engine.request_pool)
        self.broker = Channel(engine.request_pool, engine.reply_pool, engine.reservations)
        self.node: NodeHealth = engine.topology.nodes.health(peer.node_id)
        self.plans: dict[int, Plan] = {}
        self.handle: object = None  # the event loop's: how it finds its side of this session
        self.attention = False
        self.unusual_requests = False  # every request takes the general path
        self.unusual_replies = 0  # how many reasons there are for every reply to take it
        self.uncounted = UNCOUNTED  # with more exchanges in flight, what they cost is counted
        self.in_flight: InFlight | None = None  # so it is
        self.keeps = False  # of some of its requests something is kept until the broker replies
        self.ready = False  # it stands in `engine.ready`
        self.ending = False  # no more requests are taken; the end comes when the last reply is out
        self.draining = False  # the proxy is going down: fetches that wait are answered empty
        self.ended = False  # both sides are to be closed once their outboxes are empty
        self.reason: CloseReason | None = None
        self.detail = ""
        self.authenticating = False
        self.identity: Identity | None = None  # made when SASL begins
        self.mute_wanted = (
            0  # reasons to mute the client as soon as the request that is passing is through
        )
        self.throttled_until_ms = 0
        self.throttle_timer: Timer | None = None
        self.throttled_by: QuotaViolation | None = (
            None  # None: the broker, or a policy that does not say
        )
        self.held: HeldRequest | None = None
        self.judged: Exchange | None = None  # what the chain was asked about last, the long way
        self.exchange_ids = 0
        self.timer: Timer | None = None
        # how soon after it was forwarded a request may have to be looked at (`proxy.core.session.broker_waits`)
        self.shortest_wait_ms = engine.request_timeout_ms or NEVER_MS
        # the request that is passing: how many bytes are still to come and what is done with them
        self.request_left = 0
        self.request_mode = STREAM
        self.request_gathered: bytearray | None = None
        self.pending: Pending | None = None
        self.passing: Exchange | None = None  # whose reply is due, once it is through (STREAM)
        self.walker: ProduceWalker | None = None
        self.questions: list[InsertedRequest] | None = None
        # what it has of the pool of requests (`proxy.core.memory.reservations`), and since when
        self.reserved_bytes = 0  # for the frame that is kept whole
        self.head_reserved = False  # that is for the head of one
        self.holds = False  # counted among the requests held here
        self.share: Share | None = None
        self.line: Line | None = None  # it waits there
        self.reading_ms = 0
        self.read_timer: Timer | None = None
        # what the other side did not take at once: how much of it went out, and when that was last seen to change
        self.taken_bytes = -1
        self.taken_ms = 0
        self.patient = False  # a late reply was thrown away: the next request waits for the broker
        # the reply that is passing
        self.replied_ms = 0  # when the broker last sent something
        self.reply_left = 0
        self.reply_bytes = 0  # its whole size
        self.reply_gathered: bytearray | None = None
        self.reply_counted = 0  # bytes of the pool that are taken for it
        self.reply_try_bytes = 0  # with so much here, its first part may be whole; 0: all is kept
        self.reply_walker: FetchTopics | TopicNames | None = (
            None  # reads along for the usage records
        )
        self.reply_dropped = False  # it belongs to a request that was answered here

    # -- what the general path builds on --------------------------------------------------------

    def admit(self, plan: Plan, correlation_id: int, size_bytes: int, now_ms: int) -> Exchange:
        """An Exchange with every slot set, for a request that somebody wants to see."""
        exchange = _new_exchange(Exchange)
        exchange.plan = plan
        exchange.correlation_id = correlation_id
        exchange.arrived_us = self.engine.now_us
        exchange.arrived_ms = now_ms
        exchange.size_bytes = size_bytes
        exchange.exchange_id = self.exchange_ids = self.exchange_ids + 1
        exchange.asked = ASKED_ALL
        exchange.head = None
        exchange.body = None
        exchange.held = None
        exchange.delayed = False
        exchange.throttle_until_ms = 0
        exchange.kept = None
        exchange.trail = None
        exchange.seen = None
        return exchange

    def ask(self, exchange: Exchange, now_ms: int) -> Verdict:
        """Put the request before the chain."""
        if self.engine.capture is not None:
            self.engine.capture.ask(exchange, now_ms)
        plan = exchange.plan
        if not plan.simple:
            self.judged = exchange
        on_request = plan.hooks.on_request
        if on_request is None:
            return FORWARD
        try:
            verdict = on_request(exchange, plan.peer, now_ms)
            if verdict is not FORWARD:
                check_request(verdict)
            if exchange.seen is not None:
                exchange.seen.judged(verdict)
            if verdict is not FORWARD:
                verdict = self.without_exemption(exchange, verdict)
        except BaseException as error:  # `policies.hook_runner` says why
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def ask_again(self, exchange: Exchange, verdict: Verdict | None, now_ms: int) -> Verdict:
        """Go on with a held request: ask its holder again, or take `verdict` as its answer."""
        on_hold_over = exchange.plan.hooks.on_hold_over
        if on_hold_over is None:  # whoever held it is gone since a reload, and nobody else asks
            return verdict or FORWARD
        try:
            verdict = on_hold_over(exchange, exchange.plan.peer, now_ms, verdict)
            check_request(verdict)
            if exchange.seen is not None:
                exchange.seen.judged_again(verdict, now_ms)
            verdict = self.without_exemption(exchange, verdict)
        except BaseException as error:
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def resume_held(self, exchange: Exchange, judged: Verdict | PolicyFault) -> None:
        """What was held has its verdict; it is done in a turn of the session's own."""
        self.pending = Pending(exchange, judged)
        self.unmute(Mute.HELD)

    def on_response(self, exchange: Exchange, response: Response, now_ms: int) -> Throttle | None:
        """Tell the chain that a reply is about to leave; how long it wants the client to be quiet, if at all."""
        on_response = exchange.plan.hooks.on_response
        if on_response is None:
            return None
        try:
            verdict = on_response(exchange, response, exchange.plan.peer, now_ms)
            if verdict is not FORWARD:
                check_response(verdict)
        except BaseException as error:
            raise self.engine.chain.attribute_fault(
                exchange.plan.api.key, "on_response", error
            ) from error
        if exchange.seen is not None:
            exchange.seen.heard(response, verdict, now_ms)
        return verdict if isinstance(verdict, Throttle) else None

    def blame(self, exchange: Exchange, error: BaseException, now_ms: int) -> PolicyFault:
        """A policy's bug: the request ends here, and so does the session."""
        self.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
        return self.engine.chain.attribute_fault(exchange.plan.api.key, "on_request", error)

    def complete(
        self, exchange: Exchange, outcome: Outcome, now_ms: int, *, forwarded: bool = True
    ) -> None:
        """Tell the policies how an admitted request ended. `forwarded`: whether the broker has seen it.

        The first word counts: whatever raised on the way, a request ends once.
        """
        plan = exchange.plan
        if not plan.simple:
            if exchange.asked == COMPLETED:
                return
            if plan.hooks.on_complete is None:
                exchange.asked = COMPLETED
        if outcome is not Outcome.REPLIED:
            plan.meter.outcomes[outcome] += 1
        on_complete = plan.hooks.on_complete
        if on_complete is not None:
            on_complete(exchange, outcome, now_ms)
        trail = None if plan.simple else exchange.trail
        if trail is None and outcome is Outcome.DISCONNECTED and self.reason not in ORDINARY:
            trail = self.trace_of(exchange)
        if trail is not None:
            trail.tell(exchange, outcome, self.engine, forwarded=forwarded)
        if self.engine.capture is not None:
            self.engine.capture.end(exchange, outcome, now_ms)

    # -- muting the client ----------------------------------------------------------------------

    def mute_after_request(self, reason: int) -> None:
        """Mute the client, from the end of the request that is passing."""
        if self.request_left or self.pending is not None:
            self.mute_wanted |= reason
        else:
            self.client.mute(reason)
        self.attention = self.unusual_requests = True

    def unmute(self, reason: int) -> None:
        """Take a reason away; with the last one, what was read behind the mute has its turn."""
        self.mute_wanted &= ~reason
        client = self.client
        if client.muted & reason:
            self.bear(reason & client.muted, -1)
            client.unmute(reason)
            if not client.muted & STOPS_PARSING and (client.carry or self.pending is not None):
                client.mute(Mute.PACED)
            self.engine.schedule(self)
        self.look_again()

    def quiet(
        self,
        exchange: Exchange,
        throttle_time_ms: int,
        now_ms: int,
        why: QuotaViolation | None = None,
    ) -> None:
        """This request may pass, and then the client is to be quiet; its reply will say how long still."""
        until_ms = now_ms + throttle_time_ms
        if not exchange.plan.silent:
            exchange.throttle_until_ms = until_ms
            exchange.plan = exchange.plan.watched()
        self.throttle(exchange, until_ms, now_ms, why)

    def throttle(
        self, exchange: Exchange, until_ms: int, now_ms: int, why: QuotaViolation | None = None
    ) -> None:
        """The client is to be quiet until then. Later deadlines win; there is one mute, not two.

        What was read before the mute still goes straight on; the event loop stops reading in its next step.
        """
        if until_ms <= now_ms:
            return
        trail = self.trace_of(exchange)
        if trail is not None:
            trail.throttle_until_ms = max(trail.throttle_until_ms, until_ms)
            trail.excess = why or trail.excess
        if until_ms > self.throttled_until_ms:
            more_ms = until_ms - max(now_ms, self.throttled_until_ms)
            self.usage.throttle(more_ms, first=not exchange.delayed)
            exchange.delayed = True
            self.throttle_trail = trail
            self.throttled_by = why
            self.mute_until(until_ms)

    def shorten_throttle(self, until_ms: float, now_ms: int) -> None:
        """The client may speak from `until_ms` on, if that is earlier than it was told."""
        if until_ms >= self.throttled_until_ms:
            return
        end_ms = now_ms if until_ms <= now_ms else ceil(until_ms)
        self.throttled_until_ms = end_ms
        for exchange in self.queue:  # replies that are still due say the new time
            if isinstance(exchange, Exchange) and not exchange.plan.simple:
                exchange.throttle_until_ms = min(exchange.throttle_until_ms, end_ms)
        if self.throttle_timer is not None:
            self.throttle_timer.cancel()
            self.throttle_timer = None
        if end_ms > now_ms:
            self.throttle_timer = self.engine.timers.arm(end_ms, self._unthrottle)
        else:
            self._unthrottle(now_ms)

    def mute_until(self, until_ms: int) -> None:
        """Be deaf to the client, from the end of the request that is passing."""
        self.throttled_until_ms = until_ms
        self.unusual_requests = True
        if self.request_left or self.pending is not None:
            self.mute_wanted |= Mute.THROTTLED
        elif not self.client.muted & Mute.THROTTLED:
            self.client.muted |= Mute.THROTTLED
            self.bear(Mute.THROTTLED, 1)
            self.engine.schedule(self)
        if self.throttle_timer is None:
            self.throttle_timer = self.engine.timers.arm(until_ms, self._unthrottle)

    def _unthrottle(self, now_ms: int) -> None:
        if now_ms < self.throttled_until_ms:  # it was prolonged meanwhile
            self.throttle_timer = self.engine.timers.arm(self.throttled_until_ms, self._unthrottle)
            return
        self.throttle_timer = None
        self.unmute(Mute.THROTTLED)
        self.tell_unmuted()

    def look_again(self) -> None:
        """Whether requests may take the fast loop (again)."""
        self.unusual_requests = bool(
            self.ending
            or self.questions
            or self.mute_wanted
            or self.client.muted & STOPS_PARSING
            or self.pending is not None
        )

    def pace(self, unread: bytes) -> None:
        """Enough for one turn: `unread` waits, counted, and so does whatever the client sends."""
        self.client.keep(unread)
        self.client.mute(Mute.PACED)
        self.engine.attend(self)

    @property
    def paced(self) -> bool:
        """Whether bytes already read wait for the session's next turn (`resume`)."""
        return bool(self.client.muted & Mute.PACED)

    def resume(self) -> None:
        """The next turn has come; the event loop hands over what waits as if it had just been read."""
        self.client.unmute(Mute.PACED)

    def flush_requests(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the broker, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.broker.put(bytes(memoryview(buf)[start:stop]))

    def flush_replies(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the client, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.client.put(bytes(memoryview(buf)[start:stop]))
