"""What is counted of a session, and what is told of its requests.

Rules:
- A session counts for one (user, client id) at a time: `usage`. Each request is counted when it comes, each reply
  when it is through; the fast loops do it by themselves, a read at once.
- A request gets a trail when the first thing worth telling happens to it; from then on its reply is looked at.
  Nobody listens: no trail is made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.api import Forward, Throttle
from policies.chain import ASKED_ALL
from policies.decision import PolicyDecision
from policies.verdicts import without_exemption
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange, SwallowedExchange
from proxy.core.stats.request_trace import RequestTrace, Stage

if TYPE_CHECKING:
    from policies.api import Peer, QuotaViolation, Reject, Verdict
    from proxy.core.engine import Engine
    from proxy.core.session.channel import Channel


class SessionAccount:
    """See the module. `SessionState` adds what passes."""

    __slots__ = (
        "announced_bytes",
        "client",
        "engine",
        "passing",
        "peer",
        "queue",
        "sample_left",
        "samples",
        "short_since_us",
        "throttle_trail",
        "usage",
    )

    client: Channel
    passing: Exchange | None
    throttled_until_ms: int

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self.engine = engine
        self.peer = peer
        self.queue: deque[Exchange | AnsweredExchange | SwallowedExchange | ProxyExchange] = deque()
        self.usage = engine.usage.join(peer.user, peer.client_id, engine.now_ms)
        self.announced_bytes = 0  # of the request that streams (`proxy.core.memory.announced`)
        self.samples = engine.sample_every != 0
        self.sample_left = engine.sample_from() if self.samples else 0  # requests until one is
        self.short_since_us = 0  # since when its next request waits for memory
        self.throttle_trail: RequestTrace | None = None  # of the request that brought the throttle

    # -- what is counted -------------------------------------------------------------------------

    def arrived(self, exchange: Exchange) -> None:
        """A request of the general path is here, as far as its head."""
        size_bytes, usage = exchange.size_bytes, self.usage
        usage.requests += 1
        usage.request_bytes += 4 + size_bytes
        plan = exchange.plan
        if plan.is_special:
            if plan.spared:
                usage.mark_exempt(size_bytes)
            else:
                self._audit(exchange)
        if self.samples:
            self.sample_left -= 1
            if self.sample_left <= 0:
                self._sample(exchange)

    def without_exemption(self, exchange: Exchange, verdict: Verdict) -> Verdict:
        """The same verdict, and if it says that no quota counts the request, that is noted."""
        ends = verdict.forward if isinstance(verdict, Throttle) else verdict
        if not isinstance(ends, Forward) or not ends.exempt:
            return verdict
        self.mark_exempt(exchange)
        bare = without_exemption(ends)
        return replace(verdict, forward=bare) if isinstance(verdict, Throttle) else bare

    def mark_exempt(self, exchange: Exchange) -> None:
        """A policy says that no quota counts it."""
        if not exchange.plan.spared:  # else that is known already
            self.usage.mark_exempt(exchange.size_bytes)

    def through(self) -> None:
        """The last byte of a request that streamed has gone on; it may have been answered already."""
        if self.announced_bytes:
            self.engine.announced.give_back(self)
        if self.passing is not None and self.queue and self.queue[-1] is self.passing:
            self.received(self.passing)

    def received(self, exchange: Exchange) -> None:
        """It is whole. If that took more than a read, its client has kept it waiting; the broker has it from now on."""
        now_us, began_us = self.engine.now_us, exchange.arrived_us
        if now_us != began_us:
            self.stage(exchange, Stage("receive", began_us, now_us))
            exchange.wait_until(now_us)

    def taken_up(self, exchange: Exchange) -> None:
        """What was held has its turn. If that is later than the end of its wait, its client was muted meanwhile."""
        now_us, free_us = self.engine.now_us, exchange.arrived_us
        if now_us != free_us:
            if self.throttled_until_ms * 1000 > free_us:
                self.stage(exchange, Stage("throttle", free_us, now_us))
            exchange.wait_until(now_us)

    def take_key(self, user: str, client_id: str, now_ms: int) -> None:
        """It is known better who speaks: what comes from now on counts for them."""
        old = self.usage
        if (user, client_id) == (old.user, old.client_id):
            return
        usage = self.engine.usage.join(user, client_id, now_ms)
        self.engine.usage.leave(old)
        self.usage = old
        self.bear(self.client.muted, -1)
        self.usage = usage
        self.bear(self.client.muted, 1)

    def bear(self, reasons: int, by: int) -> None:
        """The client's time: what of it a throttle or lack of memory takes, from now on more (1) or less (-1)."""
        if reasons & Mute.THROTTLED:
            self.usage.blocked.change(by, self.engine.now_ms)
        if reasons & Mute.OUT_OF_MEMORY:
            self.usage.muted.change(by, self.engine.now_ms)

    def granted(self, exchange: Exchange) -> None:
        """There is memory for it, for which it had to wait."""
        since_us, self.short_since_us = self.short_since_us, 0
        exchange.arrived_us = min(exchange.arrived_us, since_us)
        now_us = self.engine.now_us
        self.stage(exchange, Stage("memory", since_us, now_us))
        exchange.wait_until(now_us)

    def mark_refused(self, exchange: Exchange, verdict: Reject) -> str:
        """A policy does not let it pass. Returns the name of its entry."""
        plan = exchange.plan
        name = _refuser(exchange)
        trail = self.trace_of(exchange)
        if trail is not None:
            trail.refused = verdict.code
            trail.refused_by = name
            trail.refused_because = verdict.message
        decision = PolicyDecision(name, verdict, plan.peer, plan.api.name, self.engine.now_ms)
        self.engine.observer.on_policy_refused(decision)
        return name

    # -- what is told ----------------------------------------------------------------------------

    def sample(self) -> None:
        """It is time for one to be told about: the newest that came."""
        newest = self.queue[-1] if self.queue else None
        if isinstance(newest, Exchange):
            self._sample(newest)

    def _audit(self, exchange: Exchange) -> None:
        trail = self.trace_of(exchange)
        if trail is not None:
            trail.audited = True

    def _sample(self, exchange: Exchange) -> None:
        self.sample_left = self.engine.sample_every
        trail = self.trace_of(exchange)
        if trail is not None:
            trail.sampled = True

    def trace_of(self, exchange: Exchange) -> RequestTrace | None:
        """The request's trail, made now if there is none; None where nobody wants to hear."""
        simple = exchange.plan.simple
        trail = None if simple else exchange.trail
        if trail is None and self.engine.keeps_traces:
            trail = exchange.trail = RequestTrace(exchange.began_us)
            if exchange.began_us != exchange.arrived_us:
                trail.stages.append(Stage("receive", exchange.began_us, exchange.arrived_us))
            if simple:
                exchange.asked = ASKED_ALL
                exchange.throttle_until_ms = 0
                exchange.seen = None
            exchange.plan = exchange.plan.watched()  # its reply is looked at
        return trail

    def stage(self, exchange: Exchange, waited: Stage, why: QuotaViolation | None = None) -> None:
        """A wait of this request is over: counted, and told if it was long or is told about anyway."""
        took_us = waited.ended_us - waited.began_us
        plan = exchange.plan
        plan.meter.waited(waited.kind, took_us)
        trail = None if plan.simple else exchange.trail
        if trail is None and (waited.kind != "receive" or took_us >= plan.slow_us):
            trail = self.trace_of(exchange)
        if trail is not None:
            trail.stages.append(waited)
            trail.excess = why or trail.excess

    def tell_unmuted(self) -> None:
        """The throttle is over, or nobody is left to bear it."""
        trail, self.throttle_trail = self.throttle_trail, None
        if trail is not None:
            self.engine.observer.on_unmuted(trail, self.engine.now_us)


def _refuser(exchange: Exchange) -> str:
    """The entry that has refused it: the last that was asked; empty if a reload has left that entry out."""
    asked = exchange.plan.hooks.asked
    if exchange.asked <= len(asked):
        return asked[exchange.asked - 1]
    return asked[0] if len(asked) == 1 else ""
