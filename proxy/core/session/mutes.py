"""The mutes of a client: their reasons, from which request on they hold, and the throttle.

Rules:
- A client is muted between two requests, never inside one: until then the reason waits in `Link.wanted`.
- `Link.diverted` says that requests must not take the fast path. Only this module writes it.
- Bytes read before a mute stay in the channel's `carry`, counted; they are handled in a later turn, after the
  last reason is removed.
- There is one throttle at a time: of several the latest end counts (as in Kafka's ThrottledChannel). It is its own
  entry on the timing wheel, so that no throttle makes a timer.
- Most throttled clients send nothing before the end of their throttle. So a mute may be deferred: its end is noted, and
  the client's next event leaves the event loop's fast path (`SharedState.try_expect_early`). If that is early, the mute
  begins (`begin_deferred`); else it never does, and costs no timer and no change of the poll set.
- The time of a deferred mute is counted in advance, so it ends before its second's row does. The part that was not
  spent is taken back. While requests have traces, no mute is deferred: a trace says when its throttle ended.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from proxy.core.session.channel import STOPS_PARSING, Mute
from proxy.core.session.channel_throttle import ChannelThrottle
from proxy.core.session.exchange import NOT_DELAYED, ObservedExchange
from proxy.core.session.traces import trace_of

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.session.link import Link
    from proxy.core.stats.usage import Usage

# -- reasons ---------------------------------------------------------------------------------------


def mute_reasons(link: Link) -> int:
    """Return why the client is muted, or would be if it sent something now (bits of `Mute`)."""
    known = link.throttle
    if known is not None and known.is_deferred and known.until_ms > link.shared.now_ms:
        return link.client.muted | Mute.THROTTLED
    return link.client.muted


def mute_now(link: Link, reason: int) -> None:
    """Mute the client at once: none of its requests is passing, or this one may be interrupted."""
    _hold(link, reason)
    link.diverted = True


def mute_after_request(link: Link, reason: int) -> None:
    """Mute the client from the end of the request that is passing."""
    if link.is_inside_request:
        link.wanted |= reason
    else:
        _hold(link, reason)
    link.diverted = True
    link.uses_outboxes = True


def on_request_boundary(link: Link) -> None:
    """Mute the client between two requests, for the reasons that waited for this boundary (`Link.wanted`)."""
    _hold(link, link.wanted)
    link.wanted = 0
    look_again(link)
    link.schedule()


def unmute(link: Link, reason: int) -> None:
    """Remove a reason; after the last one the bytes that were read before the mute are handled in a later turn."""
    link.wanted &= ~reason
    client = link.client
    held = client.muted & reason
    if not held:
        look_again(link)
        return
    count_muted_time(link, held, -1)
    muted = client.muted = client.muted & ~reason
    is_kept_off = link.keeps_off_fast_loop
    if not muted & STOPS_PARSING and (client.carry or (is_kept_off and link.pending is not None)):
        client.muted = muted | Mute.PACED
    link.shared.turns.add(link)
    link.diverted = bool(link.wanted or muted & STOPS_PARSING or is_kept_off)


def look_again(link: Link) -> None:
    """Set `diverted` if requests must not take the fast path now, else clear it."""
    link.diverted = bool(
        link.wanted or link.client.muted & STOPS_PARSING or link.keeps_off_fast_loop
    )


def count_muted_time(link: Link, held: int, by: int) -> None:
    """Begin (`by` 1) or end (-1) counting the client's time in a throttle or without memory."""
    link.usage.touch()
    if held & Mute.THROTTLED:
        link.usage.blocked.change(by, link.shared.now_ms)
    if held & Mute.OUT_OF_MEMORY:
        link.usage.muted.change(by, link.shared.now_ms)


def _hold(link: Link, reason: int) -> None:
    count_muted_time(link, reason & ~link.client.muted, 1)
    link.client.mute(reason)


# -- the throttle ----------------------------------------------------------------------------------


def throttle_request(
    link: Link,
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
    throttle(link, exchange, until_ms, now_ms, why)


def throttle(
    link: Link,
    exchange: ObservedExchange,
    until_ms: int,
    now_ms: int,
    why: QuotaViolation | None = None,
) -> None:
    """Mute the client until `until_ms`. Bytes already read are still forwarded; the next step reads no more."""
    if until_ms <= now_ms:
        return
    shared, trace = link.shared, exchange.trace
    if shared.keeps_traces:
        trace = trace_of(shared, exchange)
        if trace is not None:
            trace.throttle_until_ms = max(trace.throttle_until_ms, until_ms)
            trace.excess = why or trace.excess
    known = _throttle_of(link)
    if until_ms <= known.until_ms:
        return
    begin_deferred(link, now_ms)
    since_ms = max(known.until_ms, now_ms)
    count_delay(link.usage, exchange, until_ms - since_ms)
    known.trace, known.by, known.until_ms = trace, why, until_ms
    link.diverted = True
    if link.is_inside_request:
        link.wanted |= Mute.THROTTLED
    elif not link.client.muted & Mute.THROTTLED:
        link.client.muted |= Mute.THROTTLED
        link.usage.blocked.change(1, shared.now_ms)
        shared.turns.add(link)
    if not known.is_timed:  # else it is added again when it fires
        _add(link, known, until_ms)


def count_delay(usage: Usage, exchange: ObservedExchange, delay_ms: int) -> None:
    """Count a delay of this client by its request, the first or a further one. The sum is counted when that ends."""
    if exchange.delay_ms == NOT_DELAYED:
        exchange.delay_ms = delay_ms
        usage.throttle(delay_ms, 1)
    else:
        exchange.delay_ms += delay_ms
        usage.throttle(delay_ms, 0)


def try_defer(
    link: Link,
    exchange: ObservedExchange,
    throttle_time_ms: int,
    now_ms: int,
    why: QuotaViolation | None,
) -> bool:
    """Do as `throttle_request` for the last request that was read, but let the mute begin only with early bytes.

    Return False, and change nothing, if the mute has to begin now.
    """
    shared, known = link.shared, _throttle_of(link)
    until_ms = now_ms + throttle_time_ms
    if (
        known.is_timed
        or known.until_ms > now_ms
        or throttle_time_ms <= 0
        or until_ms > shared.usage.ends_ms
        or shared.keeps_traces
        or not shared.try_expect_early(link)
    ):
        return False
    plan = exchange.plan
    if not plan.silent:
        exchange.throttle_until_ms = until_ms
        exchange.plan = plan.slow_variant or plan.watched()
    count_delay(link.usage, exchange, throttle_time_ms)
    link.usage.blocked.spent_ms += throttle_time_ms
    known.until_ms, known.by, known.is_deferred = until_ms, why, True
    return True


def begin_deferred(link: Link, now_ms: int) -> None:
    """Begin a deferred mute if its throttle lasts, because the client has sent something; else forget it."""
    known = link.throttle
    if known is None or not known.is_deferred:
        return
    known.is_deferred = False
    until_ms = known.until_ms
    if until_ms > now_ms:
        link.usage.blocked.spent_ms -= until_ms - now_ms
        link.usage.blocked.change(1, now_ms)
        link.client.muted |= Mute.THROTTLED
        link.shared.turns.add(link)
        _add(link, known, until_ms)
        link.diverted = True


def was_throttled_after(link: Link, at_us: int) -> bool:
    """Return whether a throttle lasted beyond `at_us`, in the engine's microseconds."""
    return link.throttle is not None and link.throttle.until_ms * 1000 > at_us


def shorten(link: Link, until_ms: float, now_ms: int) -> None:
    """Let the client send from `until_ms` on, if that is earlier than it was told."""
    known = link.throttle
    if known is None or until_ms >= known.until_ms:
        return
    begin_deferred(link, now_ms)
    end_ms = now_ms if until_ms <= now_ms else ceil(until_ms)
    known.until_ms = end_ms
    for exchange in link.queue:  # replies that are still due say the new time
        if isinstance(exchange, ObservedExchange):
            exchange.throttle_until_ms = min(exchange.throttle_until_ms, end_ms)
    if end_ms > now_ms:
        _add(link, known, end_ms)
        return
    link.shared.timers.remove(known)
    _end(link, known)


def end_throttle(link: Link) -> None:
    """End the throttle: the client may send at once."""
    unmute(link, Mute.THROTTLED)
    if link.throttle is not None:
        _tell_unmuted(link, link.throttle)


def release(link: Link) -> None:
    """End the throttle, because the session is closed."""
    known = link.throttle
    if known is None:
        return
    if known.is_deferred:
        known.is_deferred = False
        link.usage.blocked.spent_ms -= max(0, known.until_ms - link.shared.now_ms)
    _tell_unmuted(link, known)
    known.is_timed = False
    known.cancel()
    link.throttle = None  # it refers to the session


def _on_due(link: Link, now_ms: int) -> None:
    """End the throttle, unless it was prolonged, or shortened in the moment in which it became due."""
    known = link.throttle
    if known is None or not known.is_timed:
        return
    if now_ms < known.until_ms:
        _add(link, known, known.until_ms)
    else:
        _end(link, known)


def _throttle_of(link: Link) -> ChannelThrottle:
    known = link.throttle
    if known is None:
        known = link.throttle = ChannelThrottle(partial(_on_due, link))
    return known


def _add(link: Link, known: ChannelThrottle, at_ms: int) -> None:
    known.is_timed = True
    known.at_ms = at_ms
    link.shared.timers.add(known)


def _end(link: Link, known: ChannelThrottle) -> None:
    known.is_timed = False
    unmute(link, Mute.THROTTLED)
    if known.trace is not None:
        _tell_unmuted(link, known)


def _tell_unmuted(link: Link, known: ChannelThrottle) -> None:
    trace, known.trace = known.trace, None
    if trace is not None:
        link.shared.observer.on_unmuted(trace, link.shared.now_us)
