"""The report of a verdict that refuses, or that would in mode observe."""

import pytest

from policies.api import EXEMPT, FORWARD, Forward, Hold, Patch, Peer, Reject, Respond, Throttle
from policies.decision import PolicyDecision, is_no_op, refusal_message

PATCHED = Forward((Patch(0, b"\x01"),))
REFUSED = Reject(44, message="DeleteTopics is forbidden here")


def decision(verdict, api_name="DeleteTopics"):
    return PolicyDecision("limits", verdict, Peer(1, "10.0.0.9", 40000), api_name, 7)


@pytest.mark.parametrize(
    ("verdict", "kind", "delay_ms", "error"),
    [
        (Reject(44), "reject", 0, "POLICY_VIOLATION"),
        (Reject(4711), "reject", 0, "error code 4711"),
        (Throttle(30, Reject(44)), "reject", 30, "POLICY_VIOLATION"),
        (Respond(b""), "respond", 0, ""),
        (Respond(b"", Reject(31)), "reject", 0, "CLUSTER_AUTHORIZATION_FAILED"),
        (Throttle(30), "throttle", 30, ""),
        (Hold(20, "key"), "hold", 20, ""),
        (PATCHED, "change", 0, ""),
    ],
)
def test_a_decision_has_a_kind_a_delay_and_an_error(verdict, kind, delay_ms, error):
    """Names come from closed sets, so that they may be labels."""
    made = decision(verdict)
    assert (made.kind, made.delay_ms, made.error) == (kind, delay_ms, error)


def test_a_decision_closes_and_explains_as_its_verdict_does():
    """Before its first request a client cannot be answered; `error_message` has the reason or the code."""
    closes = [decision(Reject(44)), decision(Reject(44, close=True)), decision(Reject(44), "")]
    assert [(each.closes, each.operation) for each in closes] == [
        (False, "DeleteTopics"),
        (True, "DeleteTopics"),
        (True, "connect"),
    ]

    told = [decision(each).message for each in (REFUSED, Throttle(30, REFUSED), Throttle(30))]
    assert told == [REFUSED.message, REFUSED.message, ""]

    assert refusal_message("limits", REFUSED) == (
        "refused by policy limits of Sluice: DeleteTopics is forbidden here"
    )
    assert (
        refusal_message("mine", Reject(44)) == "refused by policy mine of Sluice: POLICY_VIOLATION"
    )


@pytest.mark.parametrize(
    ("verdict", "nothing"),
    [
        (FORWARD, True),
        (EXEMPT, True),
        (Throttle(0), True),
        (Throttle(0, EXEMPT), True),
        (Throttle(1), False),
        (Throttle(0, REFUSED), False),
        (PATCHED, False),
        (Forward(body=b""), False),
        (Hold(0, "key"), False),
        (Respond(b""), False),
        (REFUSED, False),
    ],
)
def test_a_verdict_that_only_forwards_is_not_reported(verdict, nothing):
    """Exempt or not."""
    assert is_no_op(verdict) is nothing
