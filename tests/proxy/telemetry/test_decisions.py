"""Decisions about requests, and their texts."""

import pytest

from policies.api import Forward, Hold, Outcome, Peer, QuotaViolation, Reject, Respond, Throttle
from policies.decision import PolicyDecision
from policies.denial import Deny
from proxy.core.stats.request_trace import RequestTrace, Stage
from proxy.telemetry.decisions import (
    MAX_CODES,
    MAX_DECISIONS,
    MAX_OBSERVED,
    Decisions,
    decision_of,
    delayed_ms,
)
from wire import apis
from wire.api_keys import ApiKey
from wire.errors import ErrorCode

S_US = 1_000_000
PEER = Peer(7, "10.0.0.9", 40000, client_id="billing-1", user="alice")


def trace(outcome=Outcome.REPLIED, **fields) -> RequestTrace:
    """Return the trace of a Produce that arrived at 100 s and ended at 103 s."""
    made = RequestTrace(100 * S_US)
    made.peer = PEER
    made.api = apis.find(ApiKey.PRODUCE, 9)
    made.correlation_id = 1
    made.size_bytes = 100
    made.outcome = outcome
    made.forwarded_us = 101 * S_US
    made.ended_us = 103 * S_US
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def stage(kind: str, detail: str = "") -> Stage:
    return Stage(kind, 100 * S_US, 100 * S_US + 250_000, detail)


EXCESS = QuotaViolation("user alice", "request_rate", 263.44, 250)


@pytest.mark.parametrize(
    ("fields", "what", "ms", "detail"),
    [
        (
            {"throttle_until_ms": 104_500, "excess": EXCESS},
            "throttled",
            1500,
            "request_rate 263.44 of 250.00 (user alice)",
        ),
        (
            {"stages": [stage("throttle")], "excess": EXCESS},
            "throttled",
            250,
            "request_rate 263.44 of 250.00 (user alice)",
        ),
        ({"throttle_until_ms": 104_500}, "throttled", 1500, ""),
        ({"stages": [stage("purgatory", "a place")]}, "held", 250, "waited for a place"),
        ({"stages": [stage("purgatory")]}, "held", 250, "waited"),
        ({"stages": [stage("memory")]}, "held", 250, "waited for memory"),
        (
            {"refused": ErrorCode.TOPIC_AUTHORIZATION_FAILED},
            "refused",
            3000,
            "TOPIC_AUTHORIZATION_FAILED",
        ),
        ({"refused": 4711}, "refused", 3000, "error code 4711"),
        (
            {"refused": ErrorCode.POLICY_VIOLATION, "refused_by": "limits"},
            "refused",
            3000,
            "POLICY_VIOLATION by policy limits",
        ),
        (
            {"refused": 44, "refused_by": "limits", "refused_because": "it is\x07 late"},
            "refused",
            3000,
            "POLICY_VIOLATION by policy limits: it is? late",
        ),
        (
            {"outcome": Outcome.EXPIRED},
            "expired",
            3000,
            "the broker had not answered after 3000 ms",
        ),
        (
            {"outcome": Outcome.DISCONNECTED},
            "failed",
            3000,
            "its connection ended before it was answered",
        ),
        ({"slow": True}, "slow", 3000, "the broker took 2000 ms"),
        ({"stages": [stage("receive")]}, "slow", 3000, "its client took 3000 ms to send it"),
    ],
)
def test_a_decision_has_its_kind_its_delay_and_its_reason(fields, what, ms, detail):
    """If several kinds apply, the first in the table is taken."""
    said = decision_of(trace(**fields))
    assert (said.what, said.ms, said.detail) == (what, ms, detail)
    assert (said.user, said.client_id, said.api, said.ts_ms) == (
        "alice",
        "billing-1",
        "Produce",
        103_000,
    )


def test_decisions_are_listed_newest_first_and_only_decisions():
    """The ring is bounded; the text is made when it is read, so the order of the observers does not matter."""
    decisions = Decisions()
    decisions.on_trace(trace(sampled=True))
    assert decisions.latest(10) == []

    decisions = Decisions()
    for place in range(MAX_DECISIONS + 5):
        decisions.on_trace(trace(slow=True, trace_id=f"{place}"))
    assert [each.trace_id for each in decisions.latest(2)] == [
        f"{MAX_DECISIONS + 4}",
        f"{MAX_DECISIONS + 3}",
    ]
    assert len(decisions.latest(10 * MAX_DECISIONS)) == MAX_DECISIONS

    decisions = Decisions()
    told = trace(slow=True)
    decisions.on_trace(told)
    told.trace_id = "ab" * 16
    assert decisions.latest(1)[0].trace_id == "ab" * 16


@pytest.mark.parametrize(
    ("verdict", "ms", "detail"),
    [
        (
            Reject(44, message="too late"),
            0,
            "would be refused: POLICY_VIOLATION by policy limits: too late",
        ),
        (Respond(b""), 0, "would be answered here: by policy limits"),
        (
            Throttle(30, why=EXCESS),
            30,
            "would be throttled: by policy limits: request_rate 263.44 of 250.00 (user alice)",
        ),
        (Hold(20, "key"), 20, "would be held: by policy limits"),
        (Forward(body=b""), 0, "would be changed: by policy limits"),
    ],
)
def test_a_verdict_in_mode_observe_is_kept_with_its_client(verdict, ms, detail):
    """Operators see the affected clients before they enforce a policy."""
    decisions = Decisions()
    decisions.on_policy_observed(PolicyDecision("limits", verdict, PEER, "Produce", 5))
    (said,) = decisions.latest(10)
    assert (said.what, said.ms, said.detail, said.policy) == ("observed", ms, detail, "limits")
    assert (said.user, said.client_id, said.api, said.ts_ms) == (
        "alice",
        "billing-1",
        "Produce",
        5,
    )


def test_a_client_that_is_refused_at_connect_is_kept():
    """It has no request and no trace; a refused request is kept once, by its trace."""
    decisions = Decisions()
    for api_name in ("", "Produce"):
        decisions.on_policy_refused(PolicyDecision("wall", Reject(44), PEER, api_name, 5))
    (said,) = decisions.latest(10)
    assert (said.what, said.api, said.policy) == ("refused", "connect", "wall")
    assert said.detail == "POLICY_VIOLATION by policy wall"


def test_observed_decisions_do_not_replace_enforced_ones():
    """There are two rings, listed together, the newest first."""
    decisions = Decisions()
    decisions.on_trace(trace(slow=True))
    for n in range(2 * MAX_DECISIONS):
        decisions.on_policy_observed(
            PolicyDecision("limits", Hold(1, ""), PEER, "Produce", 102_500 + n)
        )
    told = decisions.latest(10 * MAX_DECISIONS)
    assert len(told) == 1 + MAX_OBSERVED
    assert [each.ts_ms for each in told] == sorted((each.ts_ms for each in told), reverse=True)
    assert [each.what for each in told].count("slow") == 1


def test_names_are_printable_and_delays_are_added():
    """A client's names cannot fill the page or control a terminal; a mute may follow a wait."""
    excess = EXCESS._replace(entity="a\x1b[2Jb" + "c" * 1000)
    said = decision_of(trace(throttle_until_ms=104_500, excess=excess))
    assert "\x1b" not in said.detail
    assert len(said.detail) < 300

    assert delayed_ms(trace(stages=[stage("throttle")], throttle_until_ms=104_000)) == 250 + 1000
    assert delayed_ms(trace(slow=True)) == 0


def test_an_observed_denial_of_many_topics_is_kept_small() -> None:
    """A client that asks for ten thousand topics again and again does not fill the memory."""
    decisions = Decisions()
    denial = Deny({f"t{n}": 29 for n in range(10_000)}, "no rule allows it")
    decisions.on_policy_observed(PolicyDecision("access", denial, PEER, "Fetch", 5))

    (kept,) = decisions._observed
    assert isinstance(kept.verdict, Deny)
    assert len(kept.verdict.codes) == MAX_CODES
    assert decisions.latest(1)[0].detail == (
        "would be refused: TOPIC_AUTHORIZATION_FAILED by policy access: no rule allows it"
    )
