"""The arithmetic of quotas: Kafka's own figures, and the guarantees of a release schedule."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.quota.rate import (
    MAX_THROTTLE_MS,
    ReleaseSchedule,
    SampledRate,
    throttle_time_ms,
)
from tests.support.messages.every_case import for_each
from tests.support.messages.golden import cases

RATES = ("rate-noprior-1-1", "rate-noprior-1-11", "rate-noprior-11-11", "rate-windowing-3x30s")


def filled(case) -> SampledRate:
    rate = SampledRate(case["samples"], case["window_ms"])
    for at_ms, value in case["records"]:
        rate.record(value, at_ms)
    return rate


@for_each([*RATES, "rate-min-window-1ms"])
def test_a_rate_is_measured_over_kafkas_span(case_id):
    """Missing whole windows count as empty ones; the span is never 0."""
    case = cases("rate")[case_id]
    rate = filled(case)
    assert [rate.measure(at) for at in case["at_ms"]] == pytest.approx(case["rates"], abs=1e-6)
    spans = [rate.window_ms_at(at) for at in case["at_ms"]]
    assert spans[: len(case["spans_ms"])] == case["spans_ms"]


@pytest.mark.parametrize("case_id", ["sample-purged", "sample-overlap-extra-slot"])
def test_a_window_counts_while_its_last_event_is_within_the_span(case_id):
    """So one window more than `samples` may count, the one that overlaps the left edge."""
    case = cases("rate")[case_id]
    assert filled(case).windows(case["at_ms"]) == case["windows"]


def test_a_window_that_is_exactly_a_span_old_is_gone():
    """Kafka purges at `>=`."""
    case = cases("rate")["count-windowing-1ms"]
    rate = SampledRate(case["samples"], case["window_ms"])
    sums = []
    for at_ms, value in case["records"]:
        rate.record(value, at_ms)
        sums.append(rate.measure(at_ms) * rate.window_ms_at(at_ms) / 1000)
    assert sums == pytest.approx(case["sums"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 9)), max_size=60),
    st.integers(0, 20_000),
)
def test_a_rate_equals_its_definition(steps, later_ms):
    """Windows are dropped when their last event is a span old; the rate holds at any time, also ahead."""
    rate = SampledRate(11, 1000)
    windows: dict[int, tuple[int, float]] = {}
    now_ms = 500

    def expected(at_ms: int) -> tuple[float, int]:
        alive = {n: each for n, each in windows.items() if at_ms - each[0] < 11_000}
        elapsed_ms = at_ms - min(alive) * 1000 if alive else at_ms % 1000
        if elapsed_ms < 10_000:
            elapsed_ms = 10_000 + elapsed_ms % 1000
        return sum(each[1] for each in alive.values()) * 1000 / elapsed_ms, elapsed_ms

    for step_ms, value in steps:
        now_ms += step_ms
        rate.record(value, now_ms)
        begun = windows.get(now_ms // 1000, (0, 0.0))
        windows[now_ms // 1000] = (now_ms, begun[1] + value)
        for at_ms in (now_ms, now_ms + later_ms):
            observed, span_ms = expected(at_ms)
            assert rate.measure(at_ms) == pytest.approx(observed)
            if observed:
                assert rate.window_ms_at(at_ms) == span_ms


def test_a_rate_is_unused_once_nothing_counts():
    """Not before the last event is a whole span old."""
    rate = SampledRate(11, 1000)
    assert rate.unused(0)
    rate.record(0, 500)
    assert not rate.unused(11_499)
    assert rate.unused(11_500)


@pytest.mark.parametrize(
    "case_id",
    ["thr-equal", "thr-above", "thr-bounded-below-cap", "thr-bounded-above-cap", "thr-rounding"],
)
def test_the_throttle_time_is_kafkas(case_id):
    """(O - T) / T times the span measured over, capped if a cap is given."""
    case = cases("quota.math")[case_id]
    got = throttle_time_ms(case["observed"], case["bound"], case["window_ms"], case.get("cap_ms"))
    assert got == case["throttle_ms"]


@given(st.integers(1, 600_000), st.floats(0.01, 1e9), st.integers(1_000, 40_000))
def test_the_rate_behind_a_delay_gives_that_delay(delay_ms, bound, now_ms):
    """By the same formula, over the same span, and so it is over the bound."""
    sampled = SampledRate(11, 1000)
    for at_ms in (500, 20_400):
        sampled.record(1, at_ms)
    now_ms += 20_400
    window_ms = sampled.window_ms_at(now_ms)
    assert window_ms == sampled.observe(now_ms)[1]
    rate = sampled.rate_for_delay(delay_ms, bound, now_ms)
    assert rate > bound
    assert throttle_time_ms(rate, bound, window_ms) == delay_ms


def test_halves_are_rounded_up():
    """As by Java's Math.round, not by Python's round."""
    case = cases("quota.math")["thr-round-half-up"]
    # A bound of 1 and an excess of v / 1000, over 1000 ms, is a delay of v ms; these are exact.
    got = [throttle_time_ms(1 + value, 1, 1) for value in case["values"]]
    assert got == case["rounded"]


@pytest.mark.parametrize("bad", [(5.0, 0.0), (math.inf, 1.0), (1e300, 1e-300)])
def test_a_delay_beyond_an_int32_is_clamped(bad):
    """In Kafka it wraps, and the client is not throttled."""
    assert throttle_time_ms(*bad, 10_000) == MAX_THROTTLE_MS
    assert throttle_time_ms(*bad, 10_000, 1000) == 1000


def test_a_rate_of_nan_violates_nothing():
    """A rate that cannot be measured is no reason to throttle."""
    assert throttle_time_ms(math.nan, 1, 10_000) == 0


def test_a_limit_is_inclusive_and_a_violation_stays_recorded():
    """A rate up to the limit is acceptable; an event is recorded before it is judged."""
    rate = SampledRate()
    verdicts = []
    for value in (50.0, 10.0, -60.0):  # 5, 6 and 0 a second over ten seconds
        rate.record(value, 0)
        verdicts.append(rate.measure(0) <= 5.0)
    assert verdicts == [True, False, True]


@pytest.mark.parametrize(
    "case_id", ["tokenbucket-refill", "tokenbucket-record", "tokenbucket-unrecord-capped"]
)
def test_a_schedule_is_kafkas_token_bucket_reversed(case_id):
    """The bucket starts full, may go below zero, refills at the limit's rate, and holds at most the burst."""
    case = cases("rate")[case_id]
    schedule = ReleaseSchedule(case["bound"], case["burst_ms"])
    credits_ = []
    for at_ms, value in case["records"]:
        schedule.charge(value, at_ms)
        credits_.append(schedule.credits(at_ms))
    assert credits_ == pytest.approx(case["credits"])


@settings(deadline=None)
@given(
    st.floats(0.1, 500),
    st.integers(0, 5000),
    st.lists(st.integers(0, 300), min_size=1, max_size=80),
)
def test_no_more_than_the_rate_and_one_burst_passes_in_any_interval(rate, burst_ms, steps):
    """At most T * (s + burst) + 1 requests pass, at any arrival times, if each passes when the schedule allows."""
    schedule = ReleaseSchedule(rate, burst_ms)
    now_ms = 1_700_000_000_000.0
    passed: list[float] = []
    for step_ms in steps:
        now_ms += step_ms
        now_ms = max(now_ms, now_ms + schedule.delay_ms(now_ms))
        schedule.charge(1, now_ms)
        passed.append(now_ms)
    for first, begun in enumerate(passed):
        for last in range(first, len(passed)):
            seconds = (passed[last] - begun + burst_ms) / 1000
            assert last - first + 1 <= rate * seconds + 1 + 1e-3


def test_a_schedule_follows_the_debt_and_is_paid_when_it_equals_a_new_one():
    """Not the time of the pass; not a millisecond before."""
    schedule = ReleaseSchedule(10, 0)
    assert schedule.charge(1, 0) == 100
    assert schedule.delay_ms(60) == 40
    assert schedule.charge(1, 130) == 100
    assert schedule.pass_ms + schedule.burst_ms == 230

    schedule = ReleaseSchedule(10, 2000)
    assert schedule.is_paid(0)
    schedule.charge(3, 1000)
    assert not schedule.is_paid(1299)
    assert schedule.is_paid(1300)


def test_a_new_rate_keeps_the_debt_in_units():
    """The burst is used up at most: the debt beyond it is paid at the new rate. Without a limit nothing is owed."""
    schedule = ReleaseSchedule(100, 1000)
    schedule.charge(200, 0)
    assert schedule.delay_ms(0) == 1000
    schedule.set_rate(1000, 0)
    assert schedule.delay_ms(0) == pytest.approx(100)
    assert schedule.credits(0) == pytest.approx(-100)

    schedule = ReleaseSchedule(1000, 2000)
    schedule.charge(2000, 0)
    schedule.set_rate(1, 0)
    assert schedule.delay_ms(0) == pytest.approx(0)
    assert schedule.charge(1, 0) == pytest.approx(1000)
    beyond = ReleaseSchedule(10, 1000)
    beyond.charge(15, 0)
    beyond.set_rate(5, 0)
    assert beyond.delay_ms(0) == pytest.approx(1000)

    schedule = ReleaseSchedule(math.inf, 1000)
    schedule.charge(1e9, 0)
    schedule.set_rate(10, 5)
    assert schedule.credits(5) == pytest.approx(10)


@pytest.mark.parametrize("cap_ms", [None, 2_147_483_647, 2_147_483_648])
def test_the_longest_throttle_is_the_largest_int32(cap_ms):
    """A throttle of 2,147,483,647 ms is exact; one more would wrap in the reply's field."""
    assert throttle_time_ms(2_147_483_648.0, 1.0, 1, cap_ms) == 2_147_483_647
    assert throttle_time_ms(2_147_483_649.0, 1.0, 1, cap_ms) == 2_147_483_647
    assert throttle_time_ms(2_147_483_647.0, 1.0, 1, cap_ms) == 2_147_483_646
