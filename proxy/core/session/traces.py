"""The traces of single requests: where and how long they have waited.

Rules:
- A request gets a trace at its first reportable event; from then on its reply is looked at.
- Without a listener (`keeps_traces`) no trace is made. Waits are counted all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import PolicyDecision
from policies.responses import UNKNOWN, PolicyRefusal, Result
from proxy.core.stats.request_trace import RequestTrace, Stage

if TYPE_CHECKING:
    from policies.api import Outcome, QuotaViolation, Reject
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.shared_state import SharedState


def trace_of(shared: SharedState, exchange: ObservedExchange) -> RequestTrace | None:
    """Return the request's trace, made now if there is none; None without a listener."""
    trace = exchange.trace
    if trace is None and shared.keeps_traces:
        trace = exchange.trace = RequestTrace(exchange.began_us)
        if exchange.began_us != exchange.arrived_us:
            trace.stages.append(Stage("receive", exchange.began_us, exchange.arrived_us))
        exchange.plan = exchange.plan.watched()  # its reply is looked at
    return trace


def add_stage(
    shared: SharedState,
    exchange: ObservedExchange,
    waited: Stage,
    why: QuotaViolation | None = None,
) -> None:
    """Count a wait that is over, and add it to the trace if it was long or the request has one."""
    took_us = waited.ended_us - waited.began_us
    plan = exchange.plan
    plan.meter.count_wait(waited.kind, took_us)
    trace = exchange.trace
    if trace is None and (waited.kind != "receive" or took_us >= plan.slow_us):
        trace = trace_of(shared, exchange)
    if trace is not None:
        trace.stages.append(waited)
        trace.excess = why or trace.excess


def on_received(shared: SharedState, exchange: ObservedExchange) -> None:
    """Add a receive stage to a request whose last byte has arrived, if that took more than one read."""
    now_us, began_us = shared.now_us, exchange.arrived_us
    if now_us == began_us:
        return
    if exchange.trace is None and now_us - began_us < exchange.plan.slow_us:
        exchange.plan.meter.count_wait("receive", now_us - began_us)  # all that `add_stage` does
    else:
        add_stage(shared, exchange, Stage("receive", began_us, now_us))
    exchange.arrived_us = now_us


def on_refused(
    shared: SharedState, exchange: ObservedExchange, verdict: Reject, name: str = ""
) -> str:
    """Report a request that a policy (`name`; else the last that was asked) has refused. Return the policy's name."""
    plan = exchange.plan
    name = name or refuser(exchange)
    if plan.hooks.on_complete is not None:
        before = exchange.result or UNKNOWN
        refusal = PolicyRefusal(name, verdict.code, verdict.message)
        exchange.result = Result(before.response, (*before.refusals, refusal))
    trace = trace_of(shared, exchange)
    if trace is not None:
        trace.refused = verdict.code
        trace.refused_by = name
        trace.refused_because = verdict.message
    decision = PolicyDecision(name, verdict, plan.peer, plan.api.name, shared.now_ms)
    shared.observer.on_policy_refused(decision)
    return name


def finish_trace(
    shared: SharedState, exchange: ObservedExchange, outcome: Outcome, *, forwarded: bool
) -> None:
    """Pass the trace of a request that has ended to the observer. `forwarded`: whether it was sent to the broker."""
    trace, exchange.trace = exchange.trace, None
    if trace is None:
        return
    plan = exchange.plan
    trace.peer = plan.peer
    trace.api = plan.api
    trace.correlation_id = exchange.correlation_id
    trace.size_bytes = exchange.size_bytes
    if plan.keeps_partitions:
        trace.kept = exchange.kept
    trace.outcome = outcome
    trace.ended_us = shared.now_us
    trace.forwarded_us = exchange.arrived_us if forwarded else 0
    observer = shared.observer
    if observer.receives_audit and (trace.audited or trace.refused or trace.refused_by):
        observer.on_audited(trace)
    if not trace.audited or trace.is_news or trace.sampled:
        observer.on_trace(trace)


def refuser(exchange: ObservedExchange) -> str:
    """Return the entry that has refused the request: the last that was asked; "" if a reload has removed it."""
    asked = exchange.plan.hooks.with_on_request
    if exchange.asked_up_to <= len(asked):
        return asked[exchange.asked_up_to - 1]
    return asked[0] if len(asked) == 1 else ""
