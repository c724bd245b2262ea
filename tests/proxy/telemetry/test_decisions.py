"""What is kept of requests, and the words that are made of it."""

from __future__ import annotations

import pytest

from policies.api import Forward, Hold, Outcome, Peer, QuotaViolation, Reject, Respond, Throttle
from policies.decision import PolicyDecision
from proxy.core.stats.request_trace import RequestTrace, Stage
from proxy.telemetry.decisions import KEPT, OBSERVED_KEPT, Decisions, decision_of, delayed_ms
from wire import apis
from wire.api_keys import ApiKey
from wire.errors import ErrorCode

S_US = 1_000_000
PEER = Peer(7, "10.0.0.9", 40000, client_id="billing-1", user="alice")


def trail(outcome=Outcome.REPLIED, **fields) -> RequestTrace:
    """One of a Produce that came at 100 s and was over at 103 s."""
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
def test_a_decision_says_what_it_cost_and_why(fields, what, ms, detail):
    """The first thing that is true of a request is what it is called."""
    said = decision_of(trail(**fields))
    assert (said.what, said.ms, said.detail) == (what, ms, detail)
    assert (said.user, said.client_id, said.api, said.ts_ms) == (
        "alice",
        "billing-1",
        "Produce",
        103_000,
    )


def test_a_request_that_was_only_sampled_is_no_news():
    """A trail about which nothing was decided is not kept."""
    decisions = Decisions()
    decisions.on_trail(trail(sampled=True))
    assert decisions.latest(10) == []


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
def test_what_an_observing_entry_would_have_done_is_told_with_who_asked(verdict, ms, detail):
    """So that offenders are found before a policy is switched on."""
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


def test_a_client_that_is_refused_at_its_connect_is_told_of():
    """It has no request, and so no trail; a request that is refused is told of once, by its trail."""
    decisions = Decisions()
    for api_name in ("", "Produce"):
        decisions.on_policy_refused(PolicyDecision("wall", Reject(44), PEER, api_name, 5))
    (said,) = decisions.latest(10)
    assert (said.what, said.api, said.policy) == ("refused", "connect", "wall")
    assert said.detail == "POLICY_VIOLATION by policy wall"


def test_what_would_have_been_drives_out_nothing_that_was():
    """Two rings, told as one, the newest first."""
    decisions = Decisions()
    decisions.on_trail(trail(slow=True))
    for n in range(2 * KEPT):
        decisions.on_policy_observed(
            PolicyDecision("limits", Hold(1, ""), PEER, "Produce", 102_500 + n)
        )
    told = decisions.latest(10 * KEPT)
    assert len(told) == 1 + OBSERVED_KEPT
    assert [each.ts_ms for each in told] == sorted((each.ts_ms for each in told), reverse=True)
    assert [each.what for each in told].count("slow") == 1


def test_the_newest_come_first_and_the_oldest_go():
    """The ring is bounded."""
    decisions = Decisions()
    for place in range(KEPT + 5):
        decisions.on_trail(trail(slow=True, trace_id=f"{place}"))
    assert [each.trace_id for each in decisions.latest(2)] == [f"{KEPT + 4}", f"{KEPT + 3}"]
    assert len(decisions.latest(10 * KEPT)) == KEPT


def test_a_trace_id_given_later_is_told():
    """The words are made when somebody looks, so the order of the listeners does not matter for them."""
    decisions = Decisions()
    told = trail(slow=True)
    decisions.on_trail(told)
    told.trace_id = "ab" * 16
    assert decisions.latest(1)[0].trace_id == "ab" * 16


def test_names_are_shortened_and_made_printable():
    """A peer's own names cannot flood the page, or a terminal."""
    excess = EXCESS._replace(entity="a\x1b[2Jb" + "c" * 1000)
    said = decision_of(trail(throttle_until_ms=104_500, excess=excess))
    assert "\x1b" not in said.detail
    assert len(said.detail) < 300


def test_a_delay_is_what_was_held_and_what_is_still_to_come():
    """A request that waited and whose client is then muted was delayed by both."""
    assert delayed_ms(trail(stages=[stage("throttle")], throttle_until_ms=104_000)) == 250 + 1000
    assert delayed_ms(trail(slow=True)) == 0
