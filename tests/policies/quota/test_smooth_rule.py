"""Enforcement `entity`: when and in which order requests pass, and that no client escapes it."""

import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import FORWARD, Hold, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.smooth_rule import REVIEW_BATCH
from policies.testing import PolicyBench
from policies.testing.watched_calls import reachable_objects
from tests.support.quotas.quota_policies import (
    EPOCH_MS,
    asked_by_others,
    bench,
    burst,
    peer,
    released,
)

ALICE = QuotaEntity("alice")


def spent() -> PolicyBench:
    """Return a bench on which alice, who has 10 requests a second, has used her burst."""
    made = bench({"user": "alice", "request_rate": 10})
    burst(made, 21)
    return made


def test_a_burst_passes_and_its_last_request_is_throttled():
    """Two seconds' worth and one more pass; the throttle lasts until the next may pass."""
    made = bench({"user": "alice", "request_rate": 10})
    assert burst(made, 21) == [FORWARD] * 20 + [Throttle(100)]


def test_a_request_over_the_limit_waits_for_its_slot():
    """On any connection; requests pass in order, each with the remaining throttle."""
    made = spent()
    asked = asked_by_others(made, 3)
    made.advance(99)
    assert made.released == []
    made.advance(1000)
    first, second, third = (each.exchange_id for each in asked)
    assert released(made) == [
        (100, first, Throttle(300)),
        (200, second, Throttle(200)),
        (300, third, Throttle(100)),
    ]


def test_a_new_connection_queues_after_waiting_requests():
    """Even if its request would be the first after the slot."""
    made = spent()
    assert isinstance(made.ask(made.request("Metadata"), peer(2)), Hold)
    made.now_ms += 100  # the slot has come, its alarm has not rung yet
    assert isinstance(made.ask(made.request("Metadata"), peer(3)), Hold)
    made.advance(0)
    assert [each[2] for each in released(made)] == [Throttle(200)]


def test_a_disconnect_frees_the_place_in_the_queue():
    """The next request gets the slot, and the one that left is not charged."""
    made = spent()
    asked = asked_by_others(made, 3)
    made.disconnect(peer(2))
    made.advance(1000)
    assert [each[:2] for each in released(made)] == [
        (100, asked[1].exchange_id),
        (200, asked[2].exchange_id),
    ]


def test_a_request_released_by_a_drain_leaves_no_trace():
    """A drain forwards held requests; the session's next request is a new one, and takes the slot."""
    made = spent()
    made.ask(made.request("Metadata"), peer(2))
    made.drain()
    asked = asked_by_others(made, 2)
    made.advance(1000)
    assert [each[:2] for each in released(made)[1:]] == [
        (100, asked[0].exchange_id),
        (200, asked[1].exchange_id),
    ]


def test_a_request_released_by_a_drain_is_forgotten_when_its_client_gets_another_limit():
    """It cannot be asked about again."""
    made = spent()
    other = Change(QuotaEntity("alice", "c"), "request_rate", 5.0)
    kept = []
    for session_id in (2, 3, 4):
        assert isinstance(made.ask(made.request("Metadata"), peer(session_id)), Hold)
        made.drain()
        made.policy.change([other], made.now_ms)
        made.policy.change([other._replace(value=None)], made.now_ms)
        kept.append(reachable_objects(made.policy))
    assert kept == kept[:1] * 3


def test_only_the_entity_that_is_over_waits():
    """Requests of other users and requests without a limit pass."""
    made = bench({"user": "alice", "request_rate": 1}, {"user": "bob", "request_rate": 10})
    burst(made, 5)
    assert made.ask(made.request("Metadata"), peer(2, user="bob")) is FORWARD
    assert made.ask(made.request("Metadata"), peer(3, user="carol")) is FORWARD


def test_every_api_is_throttled():
    """Heartbeats, joins and metadata count too, and SASL requests after the sign-on."""
    made = bench({"user": "alice", "request_rate": 10})
    for name in ("Heartbeat", "JoinGroup", "Metadata", "Fetch", "Produce", "ApiVersions"):
        burst(made, 30, peer(user="alice"))
        assert isinstance(made.ask(made.request(name), peer(2)), Hold)


def test_a_produce_without_acks_is_counted_and_muted_like_any_other():
    """It has no reply that could carry the throttle."""
    made = bench({"user": "alice", "request_rate": 1, "producer_byte_rate": 1000})
    verdict = made.ask(made.request("Produce", acks=0, size_bytes=5000), peer())
    assert verdict == Throttle(3000)
    assert isinstance(made.ask(made.request("Produce", acks=0), peer(2)), Hold)


def test_a_produce_waits_for_its_bytes_then_for_its_request_and_pays_once():
    """When it is asked again for the second wait, its bytes are not charged again."""
    made = bench({"user": "alice", "request_rate": 1, "producer_byte_rate": 1000})
    made.ask(made.request("Produce", size_bytes=2500), peer(1))
    asked = made.request("Produce", size_bytes=1000)
    assert isinstance(made.ask(asked, peer(2)), Hold)  # 500 ms for the bytes
    burst(made, 2, peer(3))  # and the requests of two seconds are spent
    made.advance(500)
    assert made.released == []
    made.advance(4500)
    assert [each[:2] for each in released(made)] == [(1000, asked.exchange_id)]
    usage = {each.key: each for each in made.policy.usage(made.now_ms)}
    assert usage["producer_byte_rate"].rate == pytest.approx(350)


def test_the_longer_of_both_delays_counts_and_only_its_sensor_records_it():
    """The bytes owe 3 s, the requests 1 s."""
    made = bench({"user": "alice", "request_rate": 1, "producer_byte_rate": 1000})
    burst(made, 2)
    assert made.ask(made.request("Produce", size_bytes=5000), peer()) == Throttle(3000)
    throttled = {each.key: each.throttle_max_ms for each in made.policy.usage(made.now_ms)}
    assert throttled == {"request_rate": None, "producer_byte_rate": 3000}


@pytest.mark.parametrize("entity", [ALICE, QuotaEntity("alice", "c")])
def test_a_change_of_limits_reviews_many_held_requests_in_parts_and_in_order(entity):
    """A thousand held requests do not block the loop, in the same bucket or another."""
    made = bench({"user": "alice", "request_rate": 0.1})
    burst(made, 1)
    asked = asked_by_others(made, 1000)
    made.policy.change([Change(entity, "request_rate", 1_000_000.0)], made.now_ms)
    assert len(made.host.woken) <= REVIEW_BATCH
    made.advance(20)
    assert [each[1] for each in released(made)] == [each.exchange_id for each in asked]


def test_a_live_change_holds_at_once_for_held_requests():
    """A raised limit lets them pass now; a removed one lets all of them pass."""
    made = bench({"user": "alice", "request_rate": 0.1})
    burst(made, 1)
    asked = asked_by_others(made, 3)
    assert made.released == []
    made.policy.change([Change(ALICE, "request_rate", 1000.0)], made.now_ms)
    made.advance(4)  # what is owed is paid at the new rate
    assert [each[1] for each in released(made)] == [each.exchange_id for each in asked]
    made.policy.change([Change(ALICE, "request_rate", 0.1)], made.now_ms)
    while not isinstance(made.ask(made.request("Metadata"), peer(5)), Hold):
        pass
    report = QuotaEntity("alice", "c")  # from now on this client id has a bucket of its own
    made.policy.change([Change(report, "request_rate", 5.0)], made.now_ms)
    assert len(made.released) == 4


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([0.7, 3, 10, 33.3, 400]),
    burst_seconds=st.sampled_from([0, 0.5, 2]),
    connections=st.integers(1, 12),
)
def test_in_any_play_no_more_passes_than_allowed_and_none_later_than_needed(
    seed, rate, burst_seconds, connections
):
    """T * (s + burst) + 1 in any s seconds, in order, and never idle while a request waits."""
    chance = random.Random(seed)
    made = bench({"user": "alice", "request_rate": rate}, burst_seconds=burst_seconds)
    sessions = count(1)
    idle = {next(sessions): EPOCH_MS for _ in range(connections)}  # session: when it may ask
    waiting: dict[int, int] = {}  # exchange: session, in order of arrival
    passed: list[int] = []

    def settle(session_id: int, verdict: object) -> None:
        passed.append(made.now_ms)
        quiet_ms = verdict.throttle_time_ms if isinstance(verdict, Throttle) else 0
        idle[session_id] = made.now_ms + quiet_ms + chance.choice([0, 0, 1, 40])

    for _ in range(400):
        for session_id in [each for each, at_ms in idle.items() if at_ms <= made.now_ms]:
            del idle[session_id]
            asked = made.request("Metadata")
            verdict = made.ask(asked, peer(session_id, f"c{chance.randrange(3)}"))
            if isinstance(verdict, Hold):
                waiting[asked.exchange_id] = session_id
            else:
                settle(session_id, verdict)
        if waiting and chance.random() < 0.1:
            exchange_id = chance.choice(list(waiting))
            made.disconnect(peer(waiting.pop(exchange_id)))
            idle[next(sessions)] = made.now_ms
        done = len(made.released)
        made.advance(chance.choice([1, 1, 5, 50]) if rate > 5 else chance.choice([1, 50, 700]))
        now_ms = made.now_ms
        for each in made.released[done:]:
            assert each.request.exchange_id == next(iter(waiting))
            made.now_ms = each.now_ms
            settle(waiting.pop(each.request.exchange_id), each.verdict)
        made.now_ms = now_ms
        bucket = next(bucket for _, bucket in made.policy.manager)
        assert len(bucket.queue or ()) == len(waiting)
        assert not waiting or bucket.pass_ms > made.now_ms
    passed.sort()
    for first, begun in enumerate(passed):
        for more in (1, 2, 5, 20, 60, len(passed) - 1 - first):
            if first + more < len(passed):
                seconds = (passed[first + more] - begun) / 1000 + burst_seconds
                assert more + 1 <= rate * seconds + 1 + 1e-3


def test_a_reload_judges_held_requests_again_and_charges_bytes_once():
    """The adopting policy has the same buckets, without their queues."""
    quotas = [{"user": "alice", "request_rate": 1, "producer_byte_rate": 1000}]
    made = bench(*quotas)
    burst(made, 3)
    asked = made.request("Produce", size_bytes=100)
    assert isinstance(made.ask(asked, peer(2)), Hold)
    after = made.reload()
    made.advance(1000)
    assert [each.verdict for each in made.released] == [Throttle(1000)]
    usage = {each.key: each.rate for each in after.usage(made.now_ms)}
    assert usage["producer_byte_rate"] == pytest.approx(10 * 10 / 11, rel=0.2)
