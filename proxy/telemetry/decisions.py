"""The last things that happened to requests: who was throttled, held, refused, answered here, or slow.

Rules:
- On the loop a trail is put into a ring and nothing else; words are made for whoever looks.
- Kept are those that something was decided about, or that went wrong. A request that was only sampled is nobody's news.
- What an entry in mode `observe` would have done has a ring of its own, so that it drives out nothing that happened.
- What a line says comes from names and figures, never from a body.
"""

from __future__ import annotations

from collections import deque
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from policies.api import Hold, Outcome, Throttle
from policies.decision import PolicyDecision, error_name
from proxy.core.observer import Observer

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.stats.request_trace import RequestTrace, Stage

KEPT = 500
OBSERVED_KEPT = 100
_MAX_NAME_CHARS = 249
_WOULD_BE = {
    "reject": "would be refused",
    "respond": "would be answered here",
    "throttle": "would be throttled",
    "hold": "would be held",
    "change": "would be changed",
}


class Decision(msgspec.Struct, frozen=True):
    """One line. `ms` is what it cost the client: how long it was delayed, or waited for its answer."""

    ts_ms: int
    user: str
    client_id: str
    api: str
    what: str
    """expired, refused, throttled, held, failed, slow: the first that is true. Or observed: an entry in mode `observe`
    would have refused, delayed, answered or changed it."""
    ms: int
    detail: str
    trace_id: str
    """Empty: there is no trace of it."""
    policy: str = ""
    """The entry that has refused it, or would have; empty if that is not known, or nothing was refused."""


class Decisions(Observer):
    """See the module. Listens behind the tracer, which gives the trails their ids."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[RequestTrace | PolicyDecision] = deque(maxlen=kept)
        self._observed: deque[PolicyDecision] = deque(maxlen=OBSERVED_KEPT)

    def on_trail(self, trail: RequestTrace) -> None:
        """See Observer."""
        if trail.is_news:
            self._ring.append(trail)

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer."""
        self._observed.append(decision)

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer. A refused request has a trail, a client that was refused at its connect has none."""
        if not decision.api_name:
            self._ring.append(decision)

    def latest(self, most: int) -> list[Decision]:
        """The newest first."""
        happened = map(decision_of, reversed(self._ring))
        observed = map(_would_be, reversed(self._observed))
        newest = merge(happened, observed, key=lambda each: each.ts_ms, reverse=True)
        return list(islice(newest, most))


def decision_of(trail: RequestTrace | PolicyDecision) -> Decision:
    """What there is to say of one request, or of one client that was refused at its connect."""
    if isinstance(trail, PolicyDecision):
        return _ruled(trail, "refused", 0, "")
    what, ms, detail = _judged(trail)
    return Decision(
        trail.ended_us // 1000,
        trail.peer.user,
        trail.peer.client_id[:_MAX_NAME_CHARS],
        trail.api.name,
        what,
        ms,
        detail,
        trail.trace_id,
        trail.refused_by,
    )


def _would_be(decision: PolicyDecision) -> Decision:
    return _ruled(decision, "observed", decision.delay_ms, f"{_WOULD_BE[decision.kind]}: ")


def _ruled(decision: PolicyDecision, what: str, ms: int, before: str) -> Decision:
    peer, verdict = decision.peer, decision.verdict
    why = _excess(verdict.why) if isinstance(verdict, Throttle | Hold) else ""
    return Decision(
        decision.now_ms,
        peer.user,
        peer.client_id[:_MAX_NAME_CHARS],
        decision.operation,
        what,
        ms,
        before + _refusal(decision.policy, decision.error, decision.message or why),
        "",
        decision.policy,
    )


def delayed_ms(trail: RequestTrace) -> int:
    """How long a quota delays this request and those behind it: held so far, and its client muted still."""
    held_us = sum(each.ended_us - each.began_us for each in trail.stages if each.kind == "throttle")
    return held_us // 1000 + trail.throttle_time_ms()


def _judged(trail: RequestTrace) -> tuple[str, int, str]:
    took_ms = (trail.ended_us - trail.began_us) // 1000
    waits = {each.kind: each for each in trail.stages}
    if trail.outcome is Outcome.EXPIRED:
        return "expired", took_ms, f"the broker had not answered after {took_ms} ms"
    if trail.refused_by or trail.refused:
        error = error_name(trail.refused)
        return "refused", took_ms, _refusal(trail.refused_by, error, trail.refused_because)
    if trail.throttle_until_ms or "throttle" in waits:
        return "throttled", delayed_ms(trail), _excess(trail.excess)
    for kind in ("purgatory", "memory"):
        if kind in waits:
            return "held", _ms(waits[kind]), _waited(waits[kind])
    if trail.outcome is Outcome.DISCONNECTED:
        return "failed", took_ms, "its connection ended before it was answered"
    if trail.forwarded_us and trail.slow:
        broker_ms = (trail.ended_us - trail.forwarded_us) // 1000
        return "slow", took_ms, f"the broker took {broker_ms} ms"
    return "slow", took_ms, f"its client took {took_ms} ms to send it"


def _ms(stage: Stage) -> int:
    return (stage.ended_us - stage.began_us) // 1000


def _waited(stage: Stage) -> str:
    if stage.kind == "memory":
        return "waited for memory"
    return f"waited for {_printable(stage.detail)}" if stage.detail else "waited"


def _excess(excess: QuotaViolation | None) -> str:
    if excess is None:
        return ""
    figures = f"{excess.observed:.2f} of {excess.bound:.2f}"
    return f"{excess.quota} {figures} ({_printable(excess.entity)})"


def _refusal(policy: str, error: str, why: str) -> str:
    """The words of a refusal: the error, the entry and its reason, as far as they are known."""
    said = " ".join(filter(None, (error, f"by policy {policy}" if policy else "")))
    return f"{said}: {_printable(why)}" if why else said


def _printable(text: str) -> str:
    """Names are a client's choice: no control characters, and no novels."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_NAME_CHARS])
