"""The throttle of a client: until when it is muted, and how the mute begins and ends.

Rules:
- There is one throttle at a time: of several the latest end counts (as in Kafka's ThrottledChannel). The part is its
  own entry on the timing wheel, so that no throttle makes a timer.
- Most throttled clients send nothing before the end of their throttle. So a mute may be deferred: its end is noted, and
  the client's next event leaves the event loop's fast path (`SharedState.try_expect_early`). If that is early, the mute
  begins (`begin_deferred`); else it never does, and costs no timer and no change of the poll set.
- The time of a deferred mute is counted in advance, so it ends before its second's row does. The part that was not
  spent is taken back. While requests have traces, no mute is deferred: a trace says when its throttle ended.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.plan import ACKS_NONE
from proxy.core.session.traces import trace_of

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.session.owner import Owner
    from proxy.core.stats.request_trace import RequestTrace


class ThrottledChannel(TimerEntry):
    """The throttle of one client; `Mutes` adds the other reasons. While `is_throttled`, it is on the timing wheel."""

    __slots__ = (
        "_client",
        "_owner",
        "_shared",
        "_throttle_trace",
        "_timers",
        "_turns",
        "is_deferred",
        "is_throttled",
        "throttled_by",
        "throttled_until_ms",
        "unusual",
        "wanted",
    )

    def __init__(self, owner: Owner) -> None:
        super().__init__(0)
        self._owner = owner
        self._client = owner.client
        self._shared = shared = owner.shared
        self._timers = shared.timers
        self._turns = shared.turns
        self.wanted = 0  # reasons that hold from the end of the request that is passing
        self.unusual = False
        self.throttled_until_ms = 0
        self.throttled_by: QuotaViolation | None = None  # None: the broker, or a policy gave none
        self.is_throttled = False
        self.is_deferred = False  # the client is not muted yet: it is when it sends too early
        self._throttle_trace: RequestTrace | None = None  # of the request that brought the throttle

    def unmute(self, reason: int) -> None:
        """Remove a reason; subclasses define how."""
        raise NotImplementedError

    def look_again(self) -> None:
        """Set `unusual` if requests must not take the fast loop now, else clear it; subclasses define how."""
        raise NotImplementedError

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
        shared, trace = self._shared, exchange.trace
        if shared.keeps_traces:
            trace = trace_of(shared, exchange)
            if trace is not None:
                trace.throttle_until_ms = max(trace.throttle_until_ms, until_ms)
                trace.excess = why or trace.excess
        if until_ms <= self.throttled_until_ms:
            return
        self.begin_deferred(now_ms)
        known_ms = self.throttled_until_ms
        # A call of max is slower.
        since_ms = known_ms if known_ms > now_ms else now_ms  # noqa: FURB136 - see above
        more_ms = until_ms - since_ms
        owner = self._owner
        usage = owner.usage
        usage.throttle(more_ms, 0 if exchange.delayed else 1)
        exchange.delayed = True
        self._throttle_trace = trace
        self.throttled_by = why
        self.throttled_until_ms = until_ms
        self.unusual = True
        client = self._client
        if owner.is_inside_request:
            self.wanted |= Mute.THROTTLED
        elif not client.muted & Mute.THROTTLED:
            client.muted |= Mute.THROTTLED
            usage.blocked.change(1, shared.now_ms)
            self._turns.add(owner)
        if not self.is_throttled:  # else it is added again when it fires
            self._add(until_ms)

    def try_defer(
        self,
        exchange: ObservedExchange,
        throttle_time_ms: int,
        now_ms: int,
        why: QuotaViolation | None,
    ) -> bool:
        """Do as `throttle_request` for the last request that was read, but let the mute begin only with early bytes.

        Return False, and change nothing, if the mute has to begin now.
        """
        shared = self._shared
        until_ms = now_ms + throttle_time_ms
        if (
            self.is_throttled
            or self.throttled_until_ms > now_ms
            or throttle_time_ms <= 0
            or until_ms > shared.usage.ends_ms
            or shared.keeps_traces
            or not shared.try_expect_early(self._owner)
        ):
            return False
        usage = self._owner.usage
        plan = exchange.plan
        if plan.acks != ACKS_NONE:
            exchange.throttle_until_ms = until_ms
            exchange.plan = plan.slow_variant or plan.watched()
        exchange.delayed = True
        usage.throttle(throttle_time_ms, 1)
        usage.blocked.spent_ms += throttle_time_ms
        self.throttled_until_ms = until_ms
        self.throttled_by = why
        self.is_deferred = True
        return True

    def begin_deferred(self, now_ms: int) -> None:
        """Begin a deferred mute if its throttle lasts, because the client has sent something; else forget it."""
        if not self.is_deferred:
            return
        self.is_deferred = False
        until_ms = self.throttled_until_ms
        if until_ms > now_ms:
            usage = self._owner.usage
            usage.blocked.spent_ms -= until_ms - now_ms
            usage.blocked.change(1, now_ms)
            self._client.muted |= Mute.THROTTLED
            self._turns.add(self._owner)
            self._add(until_ms)
            self.unusual = True

    def lasts(self, now_ms: int) -> bool:
        """Return whether the client is throttled now, be it muted or not."""
        return self.is_throttled or (self.is_deferred and self.throttled_until_ms > now_ms)

    def shorten_throttle(self, until_ms: float, now_ms: int) -> None:
        """Let the client send from `until_ms` on, if that is earlier than it was told."""
        if until_ms >= self.throttled_until_ms:
            return
        self.begin_deferred(now_ms)
        end_ms = now_ms if until_ms <= now_ms else ceil(until_ms)
        self.throttled_until_ms = end_ms
        for exchange in self._owner.queue:  # replies that are still due say the new time
            if isinstance(exchange, ObservedExchange):
                exchange.throttle_until_ms = min(exchange.throttle_until_ms, end_ms)
        if end_ms > now_ms:
            self._add(end_ms)
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
        if self.is_deferred:
            self.is_deferred = False
            left_ms = self.throttled_until_ms - self._shared.now_ms
            self._owner.usage.blocked.spent_ms -= max(0, left_ms)
        self._tell_unmuted()
        self.is_throttled = False
        self.cancel()

    def fire(self, now_ms: int) -> None:
        """End the throttle, unless it was prolonged meanwhile."""
        if not self.is_throttled:  # it was shortened in the moment in which it became due
            return
        if now_ms < self.throttled_until_ms:
            self._add(self.throttled_until_ms)
            return
        self._end()

    def _add(self, at_ms: int) -> None:
        self.is_throttled = True
        self.at_ms = at_ms
        self._timers.add(self)

    def _end(self) -> None:
        self.is_throttled = False
        self.unmute(Mute.THROTTLED)
        if self._throttle_trace is not None:
            self._tell_unmuted()

    def _tell_unmuted(self) -> None:
        trace, self._throttle_trace = self._throttle_trace, None
        if trace is not None:
            shared = self._shared
            shared.observer.on_unmuted(trace, shared.now_us)
