"""The mutes of a client: their reasons, from which request on they hold, and until when.

Rules:
- A client is muted between two requests, never inside one: until then the reason waits in `wanted`.
- `unusual` says that the fast loop must not begin a request by itself. Only this part writes it.
- There is one throttle at a time: of several the latest end counts (as in Kafka's ThrottledChannel). A Mutes is its own
  entry on the timing wheel, so that no throttle makes a timer.
- Bytes read before a mute stay in the channel's `carry`, counted; they are handled in a later turn, after the
  last reason is removed.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry
from proxy.core.session.channel import STOPS_PARSING, Mute
from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.traces import trace_of

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.session.owner import Owner
    from proxy.core.stats.request_trace import RequestTrace


class Mutes(TimerEntry):
    """The mutes of one client. Made with the first mute. While `is_throttled`, it waits on the timing wheel."""

    __slots__ = (
        "_owner",
        "_throttle_trace",
        "is_throttled",
        "throttled_by",
        "throttled_until_ms",
        "unusual",
        "wanted",
    )

    def __init__(self, owner: Owner) -> None:
        super().__init__(0)
        self._owner = owner
        self.wanted = 0  # reasons that hold from the end of the request that is passing
        self.unusual = False
        self.throttled_until_ms = 0
        self.throttled_by: QuotaViolation | None = None  # None: the broker, or a policy gave none
        self.is_throttled = False
        self._throttle_trace: RequestTrace | None = None  # of the request that brought the throttle

    # -- reasons ---------------------------------------------------------------------------------

    def mute_now(self, reason: int) -> None:
        """Mute the client at once: none of its requests is passing, or this one may be interrupted."""
        self._hold(reason)
        self.unusual = True

    def mute_after_request(self, reason: int) -> None:
        """Mute the client from the end of the request that is passing."""
        if self._owner.is_inside_request:
            self.wanted |= reason
        else:
            self._hold(reason)
        self.unusual = True
        self._owner.call_attention()

    def on_request_boundary(self) -> None:
        """Mute the client between two requests, for the reasons in `wanted`."""
        self._hold(self.wanted)
        self.wanted = 0
        self.look_again()
        self._owner.schedule()

    def unmute(self, reason: int) -> None:
        """Remove a reason; after the last one the bytes that were read before the mute are handled in a later turn."""
        self.wanted &= ~reason
        owner, client = self._owner, self._owner.client
        held = client.muted & reason
        if not held:
            self.look_again()
            return
        if held == Mute.THROTTLED:  # as in `count_muted_time`: nearly always a throttle ends here
            owner.usage.blocked.change(-1, owner.shared.now_ms)
        else:
            owner.count_muted_time(held, -1)
        muted = client.muted = client.muted & ~reason
        is_kept_off = owner.keeps_off_fast_loop
        if not muted & STOPS_PARSING and (client.carry or (is_kept_off and owner.has_pending)):
            client.muted = muted | Mute.PACED
        owner.shared.schedule(owner)
        self.unusual = bool(self.wanted or muted & STOPS_PARSING or is_kept_off)

    def look_again(self) -> None:
        """Set `unusual` if requests must not take the fast loop now, else clear it."""
        owner = self._owner
        self.unusual = bool(
            self.wanted or owner.client.muted & STOPS_PARSING or owner.keeps_off_fast_loop
        )

    def _hold(self, reason: int) -> None:
        client = self._owner.client
        self._owner.count_muted_time(reason & ~client.muted, 1)
        client.mute(reason)

    # -- throttles -------------------------------------------------------------------------------

    def throttle_request(
        self,
        exchange: ObservedExchange,
        throttle_time_ms: int,
        now_ms: int,
        why: QuotaViolation | None = None,
    ) -> None:
        """Let this request pass and throttle its client; the reply carries the remaining time (KIP-219)."""
        until_ms = now_ms + throttle_time_ms
        if not exchange.plan.silent:
            exchange.throttle_until_ms = until_ms
            exchange.plan = exchange.plan.watched()
        self.throttle(exchange, until_ms, now_ms, why)

    def throttle(
        self,
        exchange: ObservedExchange,
        until_ms: int,
        now_ms: int,
        why: QuotaViolation | None = None,
    ) -> None:
        """Mute the client until `until_ms`. Bytes already read are still forwarded; the next step reads no more."""
        if until_ms <= now_ms:
            return
        owner = self._owner
        shared, trace = owner.shared, exchange.trace
        if shared.keeps_traces:
            trace = trace_of(shared, exchange)
            if trace is not None:
                trace.throttle_until_ms = max(trace.throttle_until_ms, until_ms)
                trace.excess = why or trace.excess
        if until_ms <= self.throttled_until_ms:
            return
        known_ms = self.throttled_until_ms
        # A call of max is slower.
        since_ms = known_ms if known_ms > now_ms else now_ms  # noqa: FURB136 - see above
        more_ms = until_ms - since_ms
        owner.usage.throttle(more_ms, first=not exchange.delayed)
        exchange.delayed = True
        self._throttle_trace = trace
        self.throttled_by = why
        self.throttled_until_ms = until_ms
        self.unusual = True
        client = owner.client
        if owner.is_inside_request:
            self.wanted |= Mute.THROTTLED
        elif not client.muted & Mute.THROTTLED:
            client.muted |= Mute.THROTTLED
            owner.usage.blocked.change(1, shared.now_ms)
            shared.schedule(owner)
        if not self.is_throttled:  # else it is added again when it fires
            self.is_throttled = True
            self.at_ms = until_ms
            shared.timers.add(self)

    def shorten_throttle(self, until_ms: float, now_ms: int) -> None:
        """Let the client send from `until_ms` on, if that is earlier than it was told."""
        if until_ms >= self.throttled_until_ms:
            return
        end_ms = now_ms if until_ms <= now_ms else ceil(until_ms)
        self.throttled_until_ms = end_ms
        for exchange in self._owner.queue:  # replies that are still due say the new time
            if isinstance(exchange, ObservedExchange):
                exchange.throttle_until_ms = min(exchange.throttle_until_ms, end_ms)
        if end_ms > now_ms:
            self.is_throttled = True
            self.at_ms = end_ms
            self._owner.shared.timers.add(self)
            return
        self.cancel()
        self.bucket = NOWHERE  # for the next throttle
        self._end()

    def end_throttle(self) -> None:
        """End the throttle: the client may send at once."""
        self.unmute(Mute.THROTTLED)
        self._tell_unmuted()

    def release(self) -> None:
        """End the throttle, because the session is closed."""
        self._tell_unmuted()
        self.is_throttled = False
        self.cancel()

    def fire(self, now_ms: int) -> None:
        """End the throttle, unless it was prolonged meanwhile."""
        if not self.is_throttled:  # it was shortened in the moment in which it became due
            return
        if now_ms < self.throttled_until_ms:
            self.at_ms = self.throttled_until_ms
            self._owner.shared.timers.add(self)
            return
        self._end()

    def _end(self) -> None:
        self.is_throttled = False
        self.unmute(Mute.THROTTLED)
        if self._throttle_trace is not None:
            self._tell_unmuted()

    def _tell_unmuted(self) -> None:
        trace, self._throttle_trace = self._throttle_trace, None
        if trace is not None:
            shared = self._owner.shared
            shared.observer.on_unmuted(trace, shared.now_us)
