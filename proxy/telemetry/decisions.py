"""The latest decisions about requests: throttled, held, refused, answered by Sluice, failed or slow.

Rules:
- The loop only appends to a ring; text is made when a caller asks.
- A request is kept if a policy decided about it or if it failed. Requests that were only sampled are left out.
- Decisions of entries in mode `observe` have a ring of their own, so that they do not replace enforced ones.
- Text is made of names and figures, never of a body.
"""

from __future__ import annotations

from collections import deque
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from policies.api import Hold, Outcome, Throttle
from policies.decision import PolicyDecision, error_name
from policies.denial import Deny
from proxy.core.observer import Observer
from proxy.telemetry.escaping import MAX_NAME_CHARS, printable

if TYPE_CHECKING:
    from policies.api import QuotaViolation
    from proxy.core.stats.request_trace import RequestTrace, Stage

MAX_DECISIONS = 500
MAX_OBSERVED = 100
MAX_CODES = 10
_WOULD_BE = {
    "reject": "would be refused",
    "respond": "would be answered here",
    "throttle": "would be throttled",
    "hold": "would be held",
    "change": "would be changed",
}


class Decision(msgspec.Struct, frozen=True):
    """One decision. `ms` is the delay of the request, or the time until its answer."""

    ts_ms: int
    user: str
    client_id: str
    api: str
    what: str
    """The first that applies: expired, refused, throttled, held, failed, slow. Or observed: an entry in mode `observe`
    would have refused, delayed, answered or changed the request."""
    ms: int
    detail: str
    trace_id: str
    """Empty without a trace."""
    policy: str = ""
    """The entry that refused the request or would have; else empty."""


class Decisions(Observer):
    """Keeps the latest `max_decisions` decisions. Called after the tracer, which sets the trace ids."""

    def __init__(self, max_decisions: int = MAX_DECISIONS) -> None:
        self._ring: deque[RequestTrace | PolicyDecision] = deque(maxlen=max_decisions)
        self._observed: deque[PolicyDecision] = deque(maxlen=MAX_OBSERVED)

    def on_trace(self, trace: RequestTrace) -> None:
        """See Observer."""
        if trace.is_news:
            self._ring.append(trace)

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer. Of what many items would have got, MAX_CODES are kept: the text has no more."""
        verdict = decision.verdict
        if isinstance(verdict, Deny) and len(verdict.codes) > MAX_CODES:
            codes = dict(islice(verdict.codes.items(), MAX_CODES))
            decision = decision._replace(verdict=Deny(codes, verdict.message, verdict.policy))
        self._observed.append(decision)

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer. Only clients refused at their connect: refused requests come by `on_trace`."""
        if not decision.api_name:
            self._ring.append(decision)

    def latest(self, limit: int) -> list[Decision]:
        """Return at most `limit` decisions, the newest first."""
        happened = map(decision_of, reversed(self._ring))
        observed = map(_would_be, reversed(self._observed))
        newest = merge(happened, observed, key=lambda each: each.ts_ms, reverse=True)
        return list(islice(newest, limit))


def decision_of(trace: RequestTrace | PolicyDecision) -> Decision:
    """Return the decision about one request, or about one client that was refused at its connect."""
    if isinstance(trace, PolicyDecision):
        return _ruled(trace, "refused", 0, "")
    what, ms, detail = _judged(trace)
    return Decision(
        trace.ended_us // 1000,
        trace.peer.user,
        trace.peer.client_id[:MAX_NAME_CHARS],
        trace.api.name,
        what,
        ms,
        detail,
        trace.trace_id,
        trace.refused_by,
    )


def _would_be(decision: PolicyDecision) -> Decision:
    return _ruled(decision, "observed", decision.delay_ms, f"{_WOULD_BE[decision.kind]}: ")


def _ruled(decision: PolicyDecision, what: str, ms: int, before: str) -> Decision:
    peer, verdict = decision.peer, decision.verdict
    why = _excess(verdict.why) if isinstance(verdict, Throttle | Hold) else ""
    return Decision(
        decision.now_ms,
        peer.user,
        peer.client_id[:MAX_NAME_CHARS],
        decision.operation,
        what,
        ms,
        before + _refusal(decision.policy, decision.error, decision.message or why),
        "",
        decision.policy,
    )


def delayed_ms(trace: RequestTrace) -> int:
    """Return the quota delay in milliseconds: how long the request was held, plus how long its client is muted."""
    held_us = sum(each.ended_us - each.began_us for each in trace.stages if each.kind == "throttle")
    return held_us // 1000 + trace.throttle_time_ms()


def _judged(trace: RequestTrace) -> tuple[str, int, str]:
    took_ms = (trace.ended_us - trace.began_us) // 1000
    waits = {each.kind: each for each in trace.stages}
    if trace.outcome is Outcome.EXPIRED:
        return "expired", took_ms, f"the broker had not answered after {took_ms} ms"
    if trace.refused_by or trace.refused:
        error = error_name(trace.refused)
        return "refused", took_ms, _refusal(trace.refused_by, error, trace.refused_because)
    if trace.throttle_until_ms or "throttle" in waits:
        return "throttled", delayed_ms(trace), _excess(trace.excess)
    for kind in ("purgatory", "memory"):
        if kind in waits:
            return "held", _ms(waits[kind]), _waited(waits[kind])
    if trace.outcome is Outcome.DISCONNECTED:
        return "failed", took_ms, "its connection ended before it was answered"
    if trace.forwarded_us and trace.slow:
        broker_ms = (trace.ended_us - trace.forwarded_us) // 1000
        return "slow", took_ms, f"the broker took {broker_ms} ms"
    return "slow", took_ms, f"its client took {took_ms} ms to send it"


def _ms(stage: Stage) -> int:
    return (stage.ended_us - stage.began_us) // 1000


def _waited(stage: Stage) -> str:
    if stage.kind == "memory":
        return "waited for memory"
    return f"waited for {printable(stage.detail)}" if stage.detail else "waited"


def _excess(excess: QuotaViolation | None) -> str:
    if excess is None:
        return ""
    figures = f"{excess.observed:.2f} of {excess.bound:.2f}"
    return f"{excess.quota} {figures} ({printable(excess.entity)})"


def _refusal(policy: str, error: str, why: str) -> str:
    """Return a refusal in words: the error, the entry and the reason, as far as they are known."""
    said = " ".join(filter(None, (error, f"by policy {policy}" if policy else "")))
    return f"{said}: {printable(why)}" if why else said
