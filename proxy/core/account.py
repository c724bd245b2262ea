"""What is counted of a session, and what is told of its requests.

Rules:
- A session counts for one (user, client id) at a time: `usage`. Each request is counted when it comes, each reply
  when it is through; the fast loops do it by themselves, a read at once.
- A request gets a trail when the first thing worth telling happens to it; from then on its reply is looked at.
  Nobody listens: no trail is made.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from proxy.core.channel import Mute
from proxy.core.exchanges import AnsweredExchange, Exchange, OwnExchange, SwallowedExchange
from proxy.core.trail import Stage, Trail
from wire.api_keys import ApiKey

if TYPE_CHECKING:
    from policies.api import Excess, Peer
    from proxy.core.channel import Channel
    from proxy.core.engine import Engine


class SessionAccount:
    """See the module. `SessionState` adds what passes."""

    __slots__ = (
        "client",
        "engine",
        "passing",
        "peer",
        "queue",
        "sample_left",
        "samples",
        "throttle_trail",
        "usage",
    )

    client: Channel
    passing: Exchange | None

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self.engine = engine
        self.peer = peer
        self.queue: deque[Exchange | AnsweredExchange | SwallowedExchange | OwnExchange] = deque()
        self.usage = engine.usage.join(peer.user, peer.client_id, engine.now_ms)
        self.samples = engine.sample_every != 0
        self.sample_left = engine.sample_from() if self.samples else 0  # requests until one is
        self.throttle_trail: Trail | None = None  # of the request that brought the throttle

    # -- what is counted -------------------------------------------------------------------------

    def arrived(self, exchange: Exchange) -> None:
        """A request of the general path is here, as far as its head."""
        size_bytes, plan, usage = exchange.size_bytes, exchange.plan, self.usage
        usage.requests += 1
        usage.request_bytes += 4 + size_bytes
        if plan.spared or (exchange.exchange_id == 1 and plan.api.key == ApiKey.API_VERSIONS):
            usage.spare(size_bytes)
        if self.samples:
            self.sample_left -= 1
            if self.sample_left <= 0:
                self._sample(exchange)

    def through(self) -> None:
        """The last byte of a request that streamed has gone on."""
        if self.passing is not None:
            self.received(self.passing)

    def received(self, exchange: Exchange) -> None:
        """It is whole. If that took more than a read, its client has kept it waiting; the broker has it from now on."""
        now_us, began_us = self.engine.now_us, exchange.arrived_us
        if now_us != began_us:
            exchange.arrived_us = now_us
            self.stage(exchange, Stage("receive", began_us, now_us))

    def take_key(self, user: str, client_id: str, now_ms: int) -> None:
        """It is known better who speaks: what comes from now on counts for them."""
        old = self.usage
        if (user, client_id) == (old.user, old.client_id):
            return
        usage = self.usage = self.engine.usage.join(user, client_id, now_ms)
        self.engine.usage.leave(old)
        if self.client.muted & Mute.THROTTLED:
            old.blocked.change(-1, now_ms)
            usage.blocked.change(1, now_ms)

    # -- what is told ----------------------------------------------------------------------------

    def sample(self, count: int) -> None:
        """So many requests have come; if it is time for one to be told about, it is the newest."""
        self.sample_left -= count
        if self.sample_left <= 0:
            newest = self.queue[-1] if self.queue else None
            if isinstance(newest, Exchange):
                self._sample(newest)

    def _sample(self, exchange: Exchange) -> None:
        self.sample_left = self.engine.sample_every
        trail = self.trail_of(exchange)
        if trail is not None:
            trail.sampled = True

    def trail_of(self, exchange: Exchange) -> Trail | None:
        """The request's trail, made now if there is none; None where nobody wants to hear."""
        trail = exchange.trail
        if trail is None and self.engine.keeps_trails:
            trail = exchange.trail = Trail(exchange.arrived_us)
            if exchange.plan.simple:
                exchange.quiet_until_ms = 0
            exchange.plan = exchange.plan.watched()  # its reply is looked at
        return trail

    def stage(self, exchange: Exchange, waited: Stage, why: Excess | None = None) -> None:
        """A wait of this request is over: counted, and told if it was long or is told about anyway."""
        took_us = waited.ended_us - waited.began_us
        plan = exchange.plan
        plan.meter.waited(waited.kind, took_us)
        trail = exchange.trail
        if trail is None and (waited.kind != "receive" or took_us >= plan.slow_us):
            trail = self.trail_of(exchange)
            if trail is not None:
                trail.began_us = waited.began_us
        if trail is not None:
            trail.stages.append(waited)
            trail.excess = why or trail.excess

    def tell_unmuted(self) -> None:
        """The throttle is over, or nobody is left to bear it."""
        trail, self.throttle_trail = self.throttle_trail, None
        if trail is not None:
            self.engine.observer.on_unmuted(trail, self.engine.now_us)
