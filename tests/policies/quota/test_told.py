"""The reports of the quotas: the reason of a throttle, which requests are not counted, and the limits in force."""

from dataclasses import replace

import pytest

from policies.api import ANONYMOUS, EXEMPT, FORWARD, EffectiveQuota, Hold, QuotaViolation, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from tests.support.quotas.quota_policies import EPOCH_MS, bench, burst, fetch, peer

ALICE = {"user": "alice"}
BOTH_RULES = pytest.mark.parametrize("enforcement", ["entity", "channel"])


def why(verdict: object) -> QuotaViolation | None:
    assert isinstance(verdict, Throttle | Hold)
    return verdict.why


def follows(told: QuotaViolation | None) -> float:
    """Return the delay in ms that Kafka's formula gives for the
    reported figures, over the ten seconds of a new rate.
    """
    assert told is not None
    return (told.observed - told.bound) / told.bound * 10_000


def test_a_throttle_reports_its_limit_and_the_rate_that_gives_it():
    """Kafka's formula for 10.1 of 10 gives 100 ms; the longer of two delays is the reason, also of a limited Fetch."""
    made = bench({**ALICE, "request_rate": 10})
    last = burst(made, 21)[-1]
    assert why(last) == QuotaViolation(
        "user=alice", "request_rate", pytest.approx(10.1), 10.0, "bench"
    )
    assert last.throttle_time_ms == 100

    made = bench(
        {**ALICE, "request_rate": 1000},
        {**ALICE, "client_id": "c", "producer_byte_rate": 1000},
        burst_seconds=0,
    )
    verdict = made.ask(made.request("Produce", size_bytes=5000), peer())
    assert why(verdict) == QuotaViolation(
        "user=alice,client-id=c", "producer_byte_rate", 1500.0, 1000.0, "bench"
    )
    assert follows(why(verdict)) == verdict.throttle_time_ms == 5000

    made = bench({**ALICE, "request_rate": 1, "consumer_byte_rate": 1000}, burst_seconds=1)
    made.ask(fetch(made), peer())
    verdict = made.ask(fetch(made), peer())
    assert verdict.forward.patches
    assert why(verdict) == QuotaViolation("user=alice", "request_rate", 1.1, 1.0, "bench")


def test_a_hold_is_reported_as_a_throttle():
    """It counts as throttle time, not as purgatory; a later place in the queue reports a longer delay."""
    made = bench({**ALICE, "request_rate": 10})
    burst(made, 21)
    for place in (1, 2, 3):
        held = made.ask(made.request("Metadata"), peer(1 + place))
        assert isinstance(held, Hold)
        assert held.throttles
        assert held.why is not None
        assert held.why[:2] == ("user=alice", "request_rate")
        assert follows(held.why) == pytest.approx(100 * place)


@pytest.mark.parametrize("burst_seconds", [0, 0.5, 2, 30])
@pytest.mark.parametrize("rate", [0.5, 50, 400])
def test_the_reported_rate_is_over_the_limit_and_gives_the_delay(rate, burst_seconds):
    """With any burst, and however little passed in the window of the sampled rate."""
    made = bench({**ALICE, "request_rate": rate}, burst_seconds=burst_seconds)
    verdict = FORWARD
    while verdict is FORWARD:
        verdict = made.ask(made.request("Metadata"), peer())
    assert isinstance(verdict, Throttle)
    told = verdict.why
    assert told is not None
    assert told.observed > told.bound
    assert follows(told) == pytest.approx(verdict.throttle_time_ms)


def test_kafkas_rule_reports_the_reason_of_the_longer_or_the_second_delay():
    """A second delay follows from the rate at the end of the first (KIP-124); the broker's own has no reason."""
    made = bench({**ALICE, "request_rate": 0.1, "producer_byte_rate": 1}, enforcement="channel")
    asked = made.request("Produce", size_bytes=500, acks=-1)
    assert made.ask(asked, peer()) is FORWARD
    verdict = made.reply(asked, peer=peer())
    assert why(verdict) == QuotaViolation("user=alice", "producer_byte_rate", 50.0, 1.0, "bench")
    for _ in range(2):
        asked = made.request("Metadata")
        made.ask(asked, peer())
        verdict = made.reply(asked, peer=peer())
    assert why(verdict) == QuotaViolation(
        "user=alice", "request_rate", pytest.approx(0.3), 0.1, "bench"
    )

    made = bench({**ALICE, "request_rate": 0.05, "producer_byte_rate": 100}, enforcement="channel")
    asked = made.request("Produce", size_bytes=1010, acks=-1)
    made.ask(asked, peer())
    verdict = made.reply(asked, peer=peer())
    assert verdict.throttle_time_ms == 100 + 1000
    assert why(verdict) == QuotaViolation(
        "user=alice", "request_rate", pytest.approx(1 / 10.1), 0.05, "bench"
    )

    made = bench(
        {**ALICE, "producer_byte_rate": 100}, enforcement="channel", coexistence="sequential"
    )
    asked = made.request("Produce", size_bytes=10, acks=-1)
    made.ask(asked, peer())
    assert made.reply(asked, peer=peer(), throttle_time_ms=700) is FORWARD


@BOTH_RULES
@pytest.mark.parametrize("name", ["Metadata", "Produce", "Fetch"])
def test_requests_of_an_exempt_principal_are_not_counted(name, enforcement):
    """The verdict is the object EXEMPT; a client without a limit gets another, because a limit would count it."""
    limits = {"request_rate": 1, "producer_byte_rate": 1, "consumer_byte_rate": 1}
    made = bench(
        {"user": "alice", **limits},
        {"user": "mirror", **limits},
        enforcement=enforcement,
        cluster_principals=["mirror"],
    )
    for _ in range(3):
        for user, verdict in (("mirror", EXEMPT), ("bob", FORWARD)):
            asked = made.request(name, acks=-1, size_bytes=5000)
            assert made.ask(asked, peer(user=user)) is verdict
            assert made.reply(asked, 5000, peer=peer(user=user)) is FORWARD


@BOTH_RULES
def test_requests_before_authentication_are_not_charged(enforcement):
    """Sixty connections that ask before they authenticate delay no client that authenticates."""
    made = bench({"user": "<default>", "request_rate": 1}, enforcement=enforcement)
    signed_on = replace(peer(1, user="alice"), principal_source="sasl")
    asked = made.request("Metadata")
    assert made.ask(asked, signed_on) is FORWARD
    made.reply(asked, 100, peer=signed_on)
    for session_id in range(2, 62):
        asked = made.request("Metadata")
        before = replace(peer(session_id, user=ANONYMOUS), principal_source="none")
        assert made.ask(asked, before) is FORWARD
        assert made.reply(asked, 100, peer=before) is FORWARD
    assert [each.user for each in made.policy.usage(EPOCH_MS)] == ["alice"]


@BOTH_RULES
def test_the_limit_in_force_is_the_request_rate_of_the_shared_bucket(enforcement):
    """The winning level gives it; exempt principals and clients without a limit have none."""
    made = bench(
        {**ALICE, "request_rate": 10},
        {"client_id": "<default>", "request_rate": 5, "producer_byte_rate": 7},
        enforcement=enforcement,
        cluster_principals=["mirror"],
    )
    policy = made.policy
    told = policy.effective_quota("alice", "c")
    assert told == EffectiveQuota(enforcement, "user=alice", 10.0, told.rev)
    assert policy.effective_quota("bob", "c") == EffectiveQuota(
        enforcement, "client-id=c", 5.0, told.rev
    )
    assert policy.effective_quota("bob", "") is None
    assert policy.effective_quota("mirror", "c") is None


def test_a_live_change_shows_at_once_and_changes_the_revision():
    """A reader of the usage log can tell which limits held in which second."""
    made = bench({**ALICE, "request_rate": 10})
    before = made.policy.effective_quota("alice", "c")
    made.policy.change([Change(QuotaEntity("bob"), "producer_byte_rate", 7.0)], EPOCH_MS)
    other = made.policy.effective_quota("alice", "c")
    assert other.rate == before.rate
    assert other.rev != before.rev
    made.policy.change([Change(QuotaEntity("alice"), "request_rate", 20.0)], EPOCH_MS)
    assert made.policy.effective_quota("alice", "c").rate == 20.0
    made.policy.change([Change(QuotaEntity("alice"), "request_rate", None)], EPOCH_MS)
    assert made.policy.effective_quota("alice", "c").rate == 10.0
