"""What a session is made of: its two channels, its exchanges in order, and what is passing just now.

Rules:
- `unusual_requests` and `unusual_replies` say that the fast loops must not settle anything by themselves;
  whoever needs that sets them, and `look_again` says when it is over.
- A client is muted between two requests, never inside one: what is wanted earlier waits in `hush_wanted`.
- Bytes read behind a mute stay in the channel's `carry`, counted; they are taken up in a turn of their
  own when the last reason is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import FORWARD, Forward, Hold, Outcome, Reject, Respond, Throttle
from policies.chain import ASKED_ALL, PolicyFault
from proxy.core.account import SessionAccount
from proxy.core.channel import DEAF, Channel, Mute
from proxy.core.errors import ORDINARY
from proxy.core.exchanges import Exchange

if TYPE_CHECKING:
    from policies.api import Excess, Peer, Response, Verdict
    from proxy.core.engine import Engine
    from proxy.core.errors import CloseReason
    from proxy.core.holding import HeldRequest
    from proxy.core.identity import Identity
    from proxy.core.plan import Plan
    from proxy.core.requests import Question
    from proxy.core.timers import Timer
    from proxy.core.waiting_room import Line, Share
    from wire.fetch_topics import FetchTopics
    from wire.produce import ProduceWalker

_new_exchange = Exchange.__new__
STREAM, DROP, GATHER = range(3)
"""What is done with the bytes of the request that is passing: see `proxy.core.requests`."""
NEVER_MS = 1 << 40


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
        "crowded",
        "detail",
        "draining",
        "ended",
        "ending",
        "exchange_ids",
        "handle",
        "held",
        "holds",
        "hush_wanted",
        "identity",
        "line",
        "paced",
        "pending",
        "plans",
        "questions",
        "read_timer",
        "reading_ms",
        "reason",
        "replied_ms",
        "reply_bytes",
        "reply_dropped",
        "reply_gathered",
        "reply_left",
        "reply_walker",
        "request_gathered",
        "request_left",
        "request_mode",
        "reserved_bytes",
        "share",
        "shortest_wait_ms",
        "throttle_timer",
        "throttled_until_ms",
        "timer",
        "unusual_replies",
        "unusual_requests",
        "walker",
    )

    def __init__(self, engine: Engine, peer: Peer) -> None:
        super().__init__(engine, peer)
        # what waits for the client are replies, what was read of it are requests
        self.client = Channel(engine.reply_pool, engine.request_pool)
        self.broker = Channel(engine.request_pool, engine.reply_pool, engine.room)
        self.plans: dict[int, Plan] = {}
        self.handle: object = None  # the hub's: how it finds its side of this session
        self.attention = False
        self.unusual_requests = False  # every request takes the general path
        self.unusual_replies = 0  # how many reasons there are for every reply to take it
        self.crowded = False  # too many exchanges in flight: the client is not read
        self.paced = False  # bytes already read wait for the session's next turn (`resume`)
        self.ending = False  # no more requests are taken; the end comes when the last reply is out
        self.draining = False  # the proxy is going down: fetches that wait are answered empty
        self.ended = False  # both sides are to be closed once their outboxes are empty
        self.reason: CloseReason | None = None
        self.detail = ""
        self.authenticating = False
        self.identity: Identity | None = None  # made when SASL begins
        self.hush_wanted = (
            0  # reasons to mute the client as soon as the request that is passing is through
        )
        self.throttled_until_ms = 0
        self.throttle_timer: Timer | None = None
        self.held: HeldRequest | None = None
        self.exchange_ids = 0
        self.timer: Timer | None = None
        # how soon after it was forwarded a request may have to be looked at (`proxy.core.delayed`)
        self.shortest_wait_ms = engine.request_timeout_ms or NEVER_MS
        # the request that is passing: how many bytes are still to come and what is done with them
        self.request_left = 0
        self.request_mode = STREAM
        self.request_gathered: bytearray | None = None
        self.pending: Pending | None = None
        self.passing: Exchange | None = None  # whose reply is due, once it is through (STREAM)
        self.walker: ProduceWalker | None = None
        self.questions: list[Question] | None = None
        # what it has of the pool of requests (`proxy.core.waiting_room`), and since when
        self.reserved_bytes = 0  # for the frame that is kept whole
        self.holds = False  # counted among the requests held here
        self.share: Share | None = None
        self.line: Line | None = None  # it waits there
        self.reading_ms = 0
        self.read_timer: Timer | None = None
        # the reply that is passing
        self.replied_ms = 0  # when the broker last sent something
        self.reply_left = 0
        self.reply_bytes = 0  # its whole size
        self.reply_gathered: bytearray | None = None
        self.reply_walker: FetchTopics | None = None  # reads along for the usage records
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
        exchange.quiet_until_ms = 0
        exchange.kept = None
        exchange.trail = None
        exchange.seen = None
        return exchange

    def ask(self, exchange: Exchange, now_ms: int) -> Verdict:
        """Put the request before the chain."""
        if self.engine.capture is not None:
            self.engine.capture.ask(exchange, now_ms)
        plan = exchange.plan
        on_request = plan.hooks.on_request
        if on_request is None:
            return FORWARD
        try:
            verdict = on_request(exchange, plan.peer, now_ms)
            if exchange.seen is not None:
                exchange.seen.judged(verdict)
            if verdict is not FORWARD:
                ensure_verdict(verdict)
                verdict = self.without_exemption(exchange, verdict)
        except Exception as error:
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def ask_again(self, exchange: Exchange, verdict: Verdict | None, now_ms: int) -> Verdict:
        """Go on with a held request: ask its holder again, or take `verdict` as its answer."""
        on_hold_over = exchange.plan.hooks.on_hold_over
        if on_hold_over is None:  # whoever held it is gone since a reload, and nobody else asks
            return verdict or FORWARD
        try:
            verdict = on_hold_over(exchange, exchange.plan.peer, now_ms, verdict)
            ensure_verdict(verdict)
            if exchange.seen is not None:
                exchange.seen.judged_again(verdict, now_ms)
            verdict = self.without_exemption(exchange, verdict)
        except Exception as error:
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def go_on(self, exchange: Exchange, judged: Verdict | PolicyFault) -> None:
        """What was held has its verdict; it is done in a turn of the session's own."""
        self.pending = Pending(exchange, judged)
        self.unhush(Mute.HELD)

    def hear(self, exchange: Exchange, response: Response, now_ms: int) -> Throttle | None:
        """Tell the chain that a reply is about to leave; how long it wants the client to be quiet, if at all."""
        on_response = exchange.plan.hooks.on_response
        if on_response is None:
            return None
        try:
            verdict = on_response(exchange, response, exchange.plan.peer, now_ms)
        except Exception as error:
            raise self.engine.chain.blame(exchange.plan.api.key, "on_response", error) from error
        if exchange.seen is not None:
            exchange.seen.heard(response, verdict, now_ms)
        return verdict if isinstance(verdict, Throttle) else None

    def blame(self, exchange: Exchange, error: Exception, now_ms: int) -> PolicyFault:
        """A policy's bug: the request ends here, and so does the session."""
        self.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
        return self.engine.chain.blame(exchange.plan.api.key, "on_request", error)

    def complete(
        self, exchange: Exchange, outcome: Outcome, now_ms: int, *, forwarded: bool = True
    ) -> None:
        """Tell the policies how an admitted request ended. `forwarded`: whether the broker has seen it."""
        plan = exchange.plan
        if outcome is not Outcome.REPLIED:
            plan.meter.outcomes[outcome] += 1
        on_complete = plan.hooks.on_complete
        if on_complete is not None:
            on_complete(exchange, outcome, now_ms)
        trail = None if plan.simple else exchange.trail
        if trail is None and outcome is Outcome.DISCONNECTED and self.reason not in ORDINARY:
            trail = self.trail_of(exchange)
        if trail is not None:
            trail.tell(exchange, outcome, self.engine, forwarded=forwarded)
        if self.engine.capture is not None:
            self.engine.capture.end(exchange, outcome, now_ms)

    # -- muting the client ----------------------------------------------------------------------

    def hush(self, reason: int) -> None:
        """Mute the client, from the end of the request that is passing."""
        if self.request_left or self.pending is not None:
            self.hush_wanted |= reason
        else:
            self.client.mute(reason)
        self.attention = self.unusual_requests = True

    def unhush(self, reason: int) -> None:
        """Take a reason away; with the last one, what was read behind the mute has its turn."""
        self.hush_wanted &= ~reason
        client = self.client
        if client.muted & reason:
            self.bear(reason & client.muted, -1)
            client.unmute(reason)
            if not client.muted & DEAF and (client.carry or self.pending is not None):
                client.mute(Mute.PACED)
                self.paced = True
            self.engine.attending.append(self)
        self.look_again()

    def quiet(
        self, exchange: Exchange, throttle_time_ms: int, now_ms: int, why: Excess | None = None
    ) -> None:
        """This request may pass, and then the client is to be quiet; its reply will say how long still."""
        until_ms = now_ms + throttle_time_ms
        if not exchange.plan.silent:
            exchange.quiet_until_ms = until_ms
            exchange.plan = exchange.plan.watched()
        self.throttle(exchange, until_ms, now_ms, why)

    def throttle(
        self, exchange: Exchange, until_ms: int, now_ms: int, why: Excess | None = None
    ) -> None:
        """The client is to be quiet until then. Later deadlines win; there is one mute, not two.

        What was read before the mute still goes straight on; the hub stops reading in its next step.
        """
        if until_ms <= now_ms:
            return
        trail = self.trail_of(exchange)
        if trail is not None:
            trail.quiet_until_ms = max(trail.quiet_until_ms, until_ms)
            trail.excess = why or trail.excess
        if until_ms > self.throttled_until_ms:
            more_ms = until_ms - max(now_ms, self.throttled_until_ms)
            self.usage.throttle(more_ms, anew=not exchange.delayed)
            exchange.delayed = True
            self.throttle_trail = trail
            self.mute_until(until_ms)

    def mute_until(self, until_ms: int) -> None:
        """Be deaf to the client, from the end of the request that is passing."""
        self.throttled_until_ms = until_ms
        self.unusual_requests = True
        if self.request_left or self.pending is not None:
            self.hush_wanted |= Mute.THROTTLED
        elif not self.client.muted & Mute.THROTTLED:
            self.client.muted |= Mute.THROTTLED
            self.bear(Mute.THROTTLED, 1)
            self.engine.attending.append(self)
        if self.throttle_timer is None:
            self.throttle_timer = self.engine.timers.arm(until_ms, self._unthrottle)

    def _unthrottle(self, now_ms: int) -> None:
        if now_ms < self.throttled_until_ms:  # it was prolonged meanwhile
            self.throttle_timer = self.engine.timers.arm(self.throttled_until_ms, self._unthrottle)
            return
        self.throttle_timer = None
        self.unhush(Mute.THROTTLED)
        self.tell_unmuted()

    def look_again(self) -> None:
        """Whether requests may take the fast loop (again)."""
        self.unusual_requests = bool(
            self.ending
            or self.questions
            or self.hush_wanted
            or self.client.muted & DEAF
            or self.pending is not None
        )

    def pace(self, unread: bytes) -> None:
        """Enough for one turn: `unread` waits, counted, and so does whatever the client sends."""
        self.client.keep(unread)
        self.client.mute(Mute.PACED)
        self.paced = self.attention = True

    def resume(self) -> None:
        """The next turn has come; the hub hands over what waits as if it had just been read."""
        self.paced = False
        self.client.unmute(Mute.PACED)

    def flush_requests(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the broker, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.broker.put(bytes(memoryview(buf)[start:stop]))

    def flush_replies(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the client, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.client.put(bytes(memoryview(buf)[start:stop]))


def ensure_verdict(verdict: object) -> None:
    """Anything else is the policy's bug."""
    if isinstance(verdict, Throttle):
        ends: object = verdict.forward
    elif isinstance(verdict, Hold):
        ends = verdict.then
    else:
        ends = verdict
    if not isinstance(ends, Forward | Respond | Reject):
        raise TypeError(f"{verdict!r} is no verdict")
