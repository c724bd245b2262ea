"""What the quotas tell of themselves: why somebody is quiet, whom nobody counts, and what is in force."""

from __future__ import annotations

import pytest

from policies.api import EXEMPT, FORWARD, EffectiveQuota, Hold, Peer, QuotaViolation, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from policies.testing import PolicyBench
from wire.fetch import FetchHead

EPOCH_MS = 1_700_000_000_000
ALICE = {"user": "alice"}
BOTH_RULES = pytest.mark.parametrize("enforcement", ["entity", "channel"])


def bench(*quotas: dict[str, object], **settings: object) -> PolicyBench:
    made = PolicyBench(Quota, {"quotas": list(quotas), **settings}, EPOCH_MS)
    made.request("ApiVersions")  # exchange 1 is another matter
    return made


def peer(session_id: int = 1, user: str = "alice") -> Peer:
    return Peer(session_id, "127.0.0.1", 50_000 + session_id, client_id="c", user=user)


def why(verdict: object) -> QuotaViolation | None:
    assert isinstance(verdict, Throttle | Hold)
    return verdict.why


def follows(told: QuotaViolation | None) -> float:
    """The delay in ms that Kafka's formula makes of what is told, over the ten seconds of a fresh rate."""
    assert told is not None
    return (told.observed - told.bound) / told.bound * 10_000


def test_a_throttle_says_whose_limit_it_is_and_the_rate_it_follows_from():
    """The burst of 2 s and one more: 100 ms to be quiet, which is Kafka's formula for 10.1 of 10."""
    made = bench({**ALICE, "request_rate": 10})
    *_, last = (made.ask(made.request("Metadata"), peer()) for _ in range(21))
    assert why(last) == QuotaViolation(
        "user=alice", "request_rate", pytest.approx(10.1), 10.0, "bench"
    )
    assert last.throttle_time_ms == 100


def test_a_wait_is_a_throttle_and_says_the_same():
    """So it counts as throttle time, and not as purgatory; who is further back in the line is told more."""
    made = bench({**ALICE, "request_rate": 10})
    for _ in range(21):
        made.ask(made.request("Metadata"), peer())
    for place in (1, 2, 3):
        held = made.ask(made.request("Metadata"), peer(1 + place))
        assert isinstance(held, Hold)
        assert held.throttles
        assert held.why is not None
        assert held.why[:2] == ("user=alice", "request_rate")
        assert follows(held.why) == pytest.approx(100 * place)


@pytest.mark.parametrize("burst_seconds", [0, 0.5, 2, 30])
@pytest.mark.parametrize("rate", [0.5, 50, 400])
def test_by_the_schedule_the_rate_told_is_over_its_bound_and_gives_the_delay(rate, burst_seconds):
    """Whatever the burst, and however little was let through in the window of the sampled rate."""
    made = bench({**ALICE, "request_rate": rate}, burst_seconds=burst_seconds)
    verdict = FORWARD
    while verdict is FORWARD:
        verdict = made.ask(made.request("Metadata"), peer())
    assert isinstance(verdict, Throttle)
    told = verdict.why
    assert told is not None
    assert told.observed > told.bound
    assert follows(told) == pytest.approx(verdict.throttle_time_ms)


def test_the_longer_of_both_delays_is_the_reason():
    """Of a produce its bytes here, and the bucket of both names."""
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


def test_a_fetch_that_is_clipped_says_why_it_is_throttled():
    """The two are one verdict."""
    made = bench({**ALICE, "request_rate": 1, "consumer_byte_rate": 1000}, burst_seconds=1)
    verdicts = []
    for _ in range(2):
        asked = made.request("Fetch", 12)
        asked.head = FetchHead(500, 1, 1 << 20)
        verdicts.append(made.ask(asked, peer()))
    assert verdicts[1].forward.patches
    assert why(verdicts[1]) == QuotaViolation("user=alice", "request_rate", 1.1, 1.0, "bench")


def test_a_question_about_quotas_is_throttled_for_the_same_reason():
    """It is answered here, and counted like any other."""
    made = bench({**ALICE, "request_rate": 1}, burst_seconds=0)
    asked = made.request("DescribeClientQuotas")
    asked.body = b"\x01\x00\x00"
    assert why(made.ask(asked, peer())) == QuotaViolation(
        "user=alice", "request_rate", 1.1, 1.0, "bench"
    )


def test_kafkas_rule_says_why_too():
    """When the reply leaves; of two delays the longer."""
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


def test_one_delay_after_the_other_tells_the_rate_as_of_the_end_of_the_first():
    """That is what the request's delay followed from (KIP-124), not the rate of the moment."""
    made = bench({**ALICE, "request_rate": 0.05, "producer_byte_rate": 100}, enforcement="channel")
    asked = made.request("Produce", size_bytes=1010, acks=-1)
    made.ask(asked, peer())
    verdict = made.reply(asked, peer=peer())
    assert verdict.throttle_time_ms == 100 + 1000
    assert why(verdict) == QuotaViolation(
        "user=alice", "request_rate", pytest.approx(1 / 10.1), 0.05, "bench"
    )


def test_the_brokers_own_delay_has_no_reason_of_ours():
    """We did not impose it."""
    made = bench(
        {**ALICE, "producer_byte_rate": 100}, enforcement="channel", coexistence="sequential"
    )
    asked = made.request("Produce", size_bytes=10, acks=-1)
    made.ask(asked, peer())
    assert made.reply(asked, peer=peer(), throttle_time_ms=700) is FORWARD


@BOTH_RULES
@pytest.mark.parametrize("name", ["Metadata", "Produce", "Fetch"])
def test_what_an_exempt_principal_does_is_counted_by_nobody(name, enforcement):
    """The very object EXEMPT; somebody without a limit is another matter: a limit would count it."""
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


@pytest.mark.parametrize("key", ["request_rate", "producer_byte_rate"])
def test_by_kafkas_rule_a_request_without_acks_is_exempt(key):
    """Whichever limits there are; one that its bytes throttle is no less so."""
    made = bench({**ALICE, key: 100}, enforcement="channel")
    assert made.ask(made.request("Produce", acks=0, size_bytes=10), peer()) is EXEMPT
    assert made.ask(made.request("Produce", acks=-1, size_bytes=10), peer()) is FORWARD
    verdict = made.ask(made.request("Produce", acks=0, size_bytes=100_000), peer())
    if key == "request_rate":
        assert verdict is EXEMPT
    else:
        assert isinstance(verdict, Throttle)
        assert verdict.forward is EXEMPT
        assert verdict.why is not None


@BOTH_RULES
def test_what_is_in_force_is_the_request_rate_of_whoever_shares_the_bucket(enforcement):
    """By the level that wins; none for exempt principals and for those without a limit."""
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
    """Whoever reads the records later knows which limits held in which second."""
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
