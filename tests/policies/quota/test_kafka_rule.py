"""Enforcement `channel`: Kafka's own figures, its sawtooth and its gaps."""

import heapq
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import EXEMPT, FORWARD, Forward, Patch, Peer, Throttle
from policies.quota.rate import SampledRate, throttle_time_ms
from policies.testing import PolicyBench
from tests.support.messages.golden import cases
from tests.support.quotas import quota_policies
from tests.support.quotas.quota_policies import EPOCH_MS, peer
from wire.apis import OFFERED, ApiKey, name_of
from wire.fetch import FetchHead

bench = partial(quota_policies.bench, enforcement="channel")


def answered(made: PolicyBench, name: str = "Metadata", who: Peer | None = None, **reply: int):
    """Send a request, answer it at once, and return the throttle in milliseconds."""
    who = who or peer()
    asked = made.request(name)
    verdict = made.ask(asked, who)
    assert verdict is FORWARD
    verdict = made.reply(asked, peer=who, **reply)
    return verdict.throttle_time_ms if isinstance(verdict, Throttle) else 0


def throttles(records: list[list[float]], rate: SampledRate, bound: float, cap_ms: int | None):
    """Return the throttles of Kafka's rule for a list of records."""
    got = []
    for at_ms, value in records:
        rate.record(value, at_ms)
        observed, span_ms = rate.observe(at_ms)
        got.append(throttle_time_ms(observed, bound, span_ms, cap_ms))
    return got


def sensors(made: PolicyBench) -> dict[str, int | None]:
    return {each.key: each.throttle_max_ms for each in made.policy.usage(made.now_ms)}


@pytest.mark.parametrize("case_id", ["byte-spike-2100", "request-pct-spike-210"])
def test_a_spike_is_answered_with_kafkas_delay(case_id):
    """The delay is the excess over the span; for a byte rate it has no cap."""
    case = cases("quota.enforce")[case_id]
    got = throttles(case["records"], SampledRate(), case["bound"], case.get("cap_ms"))
    assert got == case["throttle_ms"]


def test_a_huge_spike_is_answered_with_capped_delays_until_it_leaves_the_window():
    """It is throttled eleven times, a second apart, then no more, as Kafka's own test asserts."""
    spike, after = (
        cases("quota.enforce")[each]
        for each in ("request-pct-spike-210", "request-pct-huge-spike-capped")
    )
    rate = SampledRate()
    throttles(spike["records"], rate, spike["bound"], spike["cap_ms"])
    got = throttles(after["records"], rate, after["bound"], after["cap_ms"])
    assert got[-len(after["tail_ms"]) :] == after["tail_ms"]


def test_ten_seconds_worth_may_come_at_once():
    """Later requests get growing delays, up to one window."""
    case = cases("quota.enforce")["rps-initial-burst"]
    made = bench({"user": "alice", "request_rate": case["bound"]})
    got = [answered(made) for _ in range(case["count"])]
    assert set(got[: case["free"]]) == {0}
    for number, delay_ms in case["throttle_ms"]:
        assert got[number - 1] == delay_ms


def test_a_client_at_exactly_the_quota_is_throttled_each_time():
    """It ignores throttles: 101 events fall into ten seconds (a fence-post error of the rule)."""
    case = cases("quota.enforce")["rps-exactly-at-quota-open-loop"]
    made = bench({"user": "alice", "request_rate": case["bound"]})
    for at_ms in range(0, case["until_ms"] + 1, case["every_ms"]):
        expected = 0 if at_ms < case["free_until_ms"] else case["throttle_ms"]
        assert (at_ms, answered(made)) == (at_ms, expected)
        made.advance(case["every_ms"])


def test_a_burst_is_paid_for_until_it_is_eleven_seconds_old():
    """Each request until then is delayed by a second."""
    case = cases("quota.enforce")["rps-burst-200-drain"]
    made = bench({"user": "alice", "request_rate": case["bound"]})
    for _ in range(case["burst"]):
        answered(made)
    for at_ms, delay_ms in case["throttle_ms"]:
        made.advance(EPOCH_MS + at_ms - made.now_ms)
        assert (at_ms, answered(made)) == (at_ms, delay_ms)


def test_many_connections_escape_the_rule():
    """No delay is longer than a window, so each connection sends once a window under any quota."""
    case = cases("quota.enforce")["rps-cap-defeats-quota-with-many-connections"]
    for connections, rate in zip(case["connections"], case["rates"], strict=True):
        made = bench({"user": "alice", "request_rate": case["bound"]})
        ready = [(0, each) for each in range(connections)]
        passed = 0
        while ready[0][0] < case["until_ms"]:
            at_ms, session_id = heapq.heappop(ready)
            made.now_ms = EPOCH_MS + at_ms
            delay_ms = answered(made, who=peer(session_id))
            passed += case["from_ms"] <= at_ms
            heapq.heappush(ready, (at_ms + 1 + delay_ms, session_id))
        measured = passed * 1000 / (case["until_ms"] - case["from_ms"])
        # Aligned windows: where in the sawtooth the minute begins and ends is worth a few requests.
        assert measured == pytest.approx(rate, rel=0.05)


def test_without_a_quota_nothing_is_recorded():
    """The policy is not called, and no Fetch is limited."""
    made = bench()
    assert answered(made) == 0
    assert list(made.policy.manager) == []
    assert made.chain.hooks(ApiKey.FETCH).on_response is None


@settings(deadline=None)
@given(
    st.integers(1, 40), st.lists(st.tuples(st.integers(0, 900), st.integers(1, 30)), max_size=60)
)
def test_a_client_that_honours_throttles_stays_within_the_rules_bound(rate, bursts):
    """On one connection: ten seconds' worth, one violating request, and one for each window's cap."""
    made = bench({"user": "alice", "request_rate": rate})
    passed: list[int] = []
    for gap_ms, size in bursts:
        made.advance(gap_ms)
        for _ in range(size):
            passed.append(made.now_ms)
            made.advance(answered(made))
    for first, begun in enumerate(passed):
        within = sum(1 for at_ms in passed[first:] if at_ms - begun <= 11_000)
        assert within <= rate * 12 + 1 + 12


def test_every_api_is_throttled():
    """Heartbeats and joins too, as in Kafka, and ApiVersions and SASL requests after the sign-on."""
    made = bench({"user": "alice", "request_rate": 0.01})
    answered(made)
    for key in sorted(OFFERED):
        name = name_of(key)
        if key in {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}:
            asked = made.request(name)  # answered here
            delay = made.reply(asked, peer=peer())
            assert isinstance(delay, Throttle)
        else:
            assert (name, answered(made, name) > 0) == (name, True)


def test_a_client_under_its_quota_has_no_throttle_time():
    """Another client id under the same default is throttled meanwhile."""
    made = bench(
        {"client_id": "<default>", "request_rate": 0.01},
        {"client_id": "unthrottled-client", "request_rate": 2000},
    )
    for name in ("Metadata", "Heartbeat", "Fetch", "Produce", "FindCoordinator"):
        assert answered(made, name, peer(1, "unthrottled-client")) == 0
    assert answered(made, "Metadata", peer(2, "other")) > 0
    told = {each.client_id: each.throttle_avg_ms for each in made.policy.usage(made.now_ms)}
    assert told == {"unthrottled-client": None, "other": 1000}


def test_a_produce_is_charged_its_header_and_body():
    """The reply's size does not count."""
    made = bench({"user": "alice", "producer_byte_rate": 1000})
    asked = made.request("Produce", size_bytes=3000)
    made.ask(asked, peer())
    made.reply(asked, 50, peer=peer())
    assert next(made.policy.usage(made.now_ms)).rate == 300


def spend(made: PolicyBench, byte_ms: int, request_ms: int, broker_ms: int = 0) -> int:
    """Send a Produce that violates both limits: 1000 bytes/s by `byte_ms`, 10 requests/s by `request_ms`."""
    account = made.policy.manager.buckets_of("alice", "c", made.now_ms)
    account.request.rate.record(100 + request_ms / 100 - 1, made.now_ms)
    asked = made.request("Produce", size_bytes=10_000 + byte_ms)
    made.ask(asked, peer())
    verdict = made.reply(asked, throttle_time_ms=broker_ms, peer=peer())
    return verdict.throttle_time_ms if isinstance(verdict, Throttle) else 0


BOTH = {"user": "alice", "request_rate": 10, "producer_byte_rate": 1000}


def test_the_byte_delay_comes_first_and_the_request_is_judged_after_it():
    """The window has moved by then: at 2.1 s the delay covers the same ten seconds, at 11 s there is none."""
    made = bench(BOTH)
    assert spend(made, 2100, 210) == 2100 + 110  # the span has grown by 100 ms
    assert sensors(made) == {"request_rate": 110, "producer_byte_rate": 2100}
    assert spend(bench(BOTH), 11_000, 210) == 11_000


def test_with_max_the_longer_delay_counts_and_a_tie_goes_to_the_requests():
    """As in Kafka since 2.0, only the sensor of the longer delay records it."""
    made = bench(BOTH, coexistence="max")
    assert spend(made, 2100, 210) == 2100
    assert sensors(made) == {"request_rate": None, "producer_byte_rate": 2100}
    tied = bench(BOTH, coexistence="max")
    assert spend(tied, 300, 300) == 300
    assert sensors(tied) == {"request_rate": 300, "producer_byte_rate": None}


def test_a_fetch_that_violates_both_is_throttled_by_its_bytes():
    """With `max`, as in Kafka's test, the request's sensor records nothing."""
    made = bench(
        {"user": "alice", "consumer_byte_rate": 1, "request_rate": 0.01}, coexistence="max"
    )
    asked = made.request("Fetch")
    made.ask(asked, peer())
    verdict = made.reply(asked, 500, peer=peer())
    assert verdict == Throttle(490_000)
    assert sensors(made) == {"request_rate": None, "consumer_byte_rate": 490_000}


@pytest.mark.parametrize(("broker_ms", "ours_ms", "joined_ms"), [(1500, 0, 0), (3000, 1000, 3000)])
def test_the_brokers_own_delay_is_joined_not_doubled(broker_ms, ours_ms, joined_ms):
    """With `max` the larger counts; without a delay of Sluice's the broker's stays as it is and mutes."""
    made = bench({"user": "alice", "request_rate": 10}, coexistence="max")
    if ours_ms:
        made.policy.manager.buckets_of("alice", "c", EPOCH_MS).request.rate.record(1000, EPOCH_MS)
    assert answered(made, throttle_time_ms=broker_ms) == joined_ms


def test_a_rate_above_the_limit_by_less_than_half_a_millisecond_is_no_throttle():
    """The delay is rounded as Kafka rounds it."""
    for excess, expected in ((0.002, FORWARD), (0.02, Throttle(2))):
        made = bench({"user": "alice", "request_rate": 10})
        sensor = made.policy.manager.buckets_of("alice", "c", EPOCH_MS).request.rate
        sensor.record(99 + excess, EPOCH_MS)
        asked = made.request("Metadata")
        made.ask(asked, peer())
        assert made.reply(asked, peer=peer()) == expected


def test_the_brokers_own_delay_comes_before_sluices():
    """In sequence, Sluice's delay is judged as of the end of the broker's."""
    made = bench({"user": "alice", "request_rate": 10})
    made.policy.manager.buckets_of("alice", "c", EPOCH_MS).request.rate.record(101, EPOCH_MS)
    assert answered(made, throttle_time_ms=2050) == 2050 + 150
    made.advance(1)
    assert answered(made, throttle_time_ms=12_000) == 12_000
    assert answered(made, throttle_time_ms=0x7FFF_FFFF) == 600_000  # the most that is followed


def test_a_request_without_acks_is_exempt_but_its_bytes_are_not():
    """It is muted when it arrives, because it has no reply."""
    made = bench(BOTH)
    account = made.policy.manager.buckets_of("alice", "c", EPOCH_MS)
    account.request.rate.record(1000, EPOCH_MS)
    assert made.ask(made.request("Produce", acks=0, size_bytes=1000), peer()) is EXEMPT
    assert account.request.rate.measure(EPOCH_MS) == 100
    throttled = made.ask(made.request("Produce", acks=0, size_bytes=9700), peer())
    assert throttled == Throttle(700)
    assert throttled.forward is EXEMPT
    assert throttled.why.quota == "producer_byte_rate"
    assert sensors(made) == {"request_rate": None, "producer_byte_rate": 700}


def test_a_fetch_is_limited_to_what_the_window_allows():
    """It may ask for T times the ten whole windows; its reply is passed whole and charged."""
    case = cases("quota.combine")["fetch-max-bytes-capped-by-quota"]
    made = bench({"user": "alice", "consumer_byte_rate": case["consumer_byte_rate"]})
    asked = made.request("Fetch", 12)
    asked.head = FetchHead(500, case["min_bytes"], case["max_bytes"])
    data = case["clipped"].to_bytes(4, "big")
    assert made.ask(asked, peer()) == Forward((Patch(12, data), Patch(8, data)))
    assert made.reply(asked, 40_000, peer=peer()) == Throttle(10_000)
    assert next(made.policy.usage(made.now_ms)).rate == 4000


def test_an_expired_sensor_is_made_again_and_the_request_passes():
    """A default for client ids has one bucket for each client id, whichever user sends it."""
    made = bench({"client_id": "<default>", "producer_byte_rate": 500})
    for size_bytes, expected in ((100, 0), (10_000, 10_000)):
        asked = made.request("Produce", size_bytes=size_bytes)
        made.ask(asked, peer(1, "client1", "ANONYMOUS"))
        verdict = made.reply(asked, peer=peer(1, "client1", "ANONYMOUS"))
        assert (verdict is FORWARD) == (expected == 0)
        assert [each[:3] for each in made.policy.usage(made.now_ms)] == [
            ("", "client1", "producer_byte_rate")
        ]
        made.policy.manager.expire(made.now_ms + 3_600_001)
        assert list(made.policy.manager) == []
