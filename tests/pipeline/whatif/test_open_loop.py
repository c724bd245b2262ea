"""Buckets that take no steps: the result is the one that the closed loop gives for them, to the rounding of sums."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.whatif.channel_loop import ChannelLoop
from pipeline.whatif.closed_loop import Rule, simulate
from pipeline.whatif.demand import ClientDemand, demand_of
from pipeline.whatif.entity_loop import EntityLoop
from pipeline.whatif.open_loop import OpenLoop, Trial, smallest_limits
from policies.quota.rate import ReleaseSchedule, SampledRate

BUCKETS = 12
SECONDS = 90


class Stepped(EntityLoop):
    """The schedule, with steps for every bucket."""

    def undelayed(self, recorded: OpenLoop) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.zeros(recorded.buckets, bool)


class SteppedChannel(ChannelLoop):
    """Kafka's rule, with steps for every bucket."""

    def undelayed(self, recorded: OpenLoop) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.zeros(recorded.buckets, bool)


def demand(seed: int) -> ClientDemand:
    """Return one to three clients in each bucket, with pauses, batches, and limits near what they want."""
    dice = np.random.default_rng(seed)
    bucket_of = np.sort(dice.integers(0, BUCKETS, 2 * BUCKETS))
    client = np.repeat(np.arange(len(bucket_of)), SECONDS)
    rate = np.repeat(10 ** dice.uniform(-0.5, 2, len(bucket_of)), SECONDS)
    size = np.repeat(dice.choice([1, 1, 12], len(bucket_of)), SECONDS)
    second = np.tile(np.arange(SECONDS), len(bucket_of))
    second += np.where(second > SECONDS / 2, dice.choice([0, 5, 3000]), 0)
    amount = dice.poisson(rate / size) * size
    some = (amount > 0) | (np.arange(len(client)) % SECONDS == 0)  # each has a row
    columns = {
        "client": client[some],
        "ts_ms": second[some] * 1000 + 1_763_683_200_000,
        "amount": amount[some],
        "requests": amount[some],
        "connections": np.full(some.sum(), 3),
        **dict.fromkeys(("blocked_ms", "recorded", "recorded_rate"), np.zeros(some.sum())),
    }
    wanted = np.bincount(bucket_of[client[some]], amount[some], BUCKETS) / SECONDS
    return demand_of(columns, bucket_of, (wanted + 0.1) * 10 ** dice.uniform(-0.3, 1, BUCKETS))


def rules(enforcement: str, of: ClientDemand) -> tuple[Rule, Rule]:
    """Return the rule, and the same with steps for every bucket."""
    if enforcement == "channel":
        return ChannelLoop(of.limit, of.clients), SteppedChannel(of.limit, of.clients)
    return EntityLoop(of.limit, 2000, of.clients), Stepped(of.limit, 2000, of.clients)


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_bucket_without_delays_needs_no_steps(enforcement: str, seed: int) -> None:
    """Requests, rates and every count of delays."""
    given_demand = demand(seed)
    rule, stepped = rules(enforcement, given_demand)
    found, expected = simulate(given_demand, rule), simulate(given_demand, stepped)
    np.testing.assert_allclose(found.accepted, expected.accepted, rtol=1e-9)
    np.testing.assert_allclose(found.requests, expected.requests, rtol=1e-9)
    np.testing.assert_allclose(found.delays.table, expected.delays.table, rtol=1e-9)


def played(seconds: dict[int, int], enforcement: str, limit: float) -> float:
    """Return the share of requests, evenly spread in their seconds, that the policy's own arithmetic delays."""
    schedule, rate = ReleaseSchedule(limit, 2000), SampledRate()
    delayed = 0
    for second, count in seconds.items():
        for place in range(count):
            at_ms = second * 1000 + int((place + 0.5) * 1000 / count)
            if enforcement == "entity":
                delayed += schedule.charge(1, at_ms) > 0
            else:
                rate.record(1, at_ms)
                delayed += rate.measure(at_ms) > limit
    return delayed / sum(seconds.values())


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@given(
    busy=st.integers(1, 9),
    idle=st.integers(0, 30),
    rate=st.integers(20, 80),
    rest=st.integers(0, 10),
    target=st.sampled_from([0.01, 0.05, 0.3]),
)
@settings(max_examples=30)
def test_the_smallest_limit_meets_its_target_and_a_smaller_one_does_not(
    enforcement: str, busy: int, idle: int, rate: int, rest: int, target: float
) -> None:
    """By a play of every request with the policy's own arithmetic, above the limit and below it."""
    seconds = {s: rate if s % (busy + idle) < busy else rest for s in range(120)}
    seconds = {second: count for second, count in seconds.items() if count}
    count = np.fromiter(seconds.values(), float)
    zeros = np.zeros(len(count), np.int64)
    loop = OpenLoop(zeros, np.fromiter(seconds, np.int64), count, count, count, 1)

    def delayed(loop: OpenLoop, limit: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Any:
        if enforcement == "entity":
            return loop.delayed_by_schedule(limit, 2.0)
        return loop.delayed_by_samples(limit, 11, 1000)

    trial = Trial(delayed, 2.0 if enforcement == "entity" else 12.0, target)
    (limit,) = smallest_limits(loop, np.zeros(1, np.int64), trial)
    assert played(seconds, enforcement, limit * 1.05) <= target + 0.01
    assert played(seconds, enforcement, limit * 0.9) >= target * 0.9


def test_a_group_of_buckets_has_one_limit_and_one_without_requests_has_none() -> None:
    """The share is that of all requests of a group, so a busy bucket of many quiet ones may be delayed."""
    bucket = np.repeat(np.arange(4), 10)
    amount = np.repeat([10.0, 10.0, 40.0, 10.0], 10)
    loop = OpenLoop(bucket, np.tile(np.arange(10), 4), amount, amount, amount, 5)
    group = np.array([0, 1, 1, 1, 2])

    def limits(target: float) -> list[float]:
        trial = Trial(lambda some, each: some.delayed_by_schedule(each, 0.0), 0.0, target)
        return list(smallest_limits(loop, group, trial))

    assert limits(0.0)[:2] == pytest.approx([10, 40], rel=0.01)
    assert limits(0.7)[:2] == pytest.approx([10, 10], rel=0.01)  # 400 of 600 are those of one
    assert np.isnan(limits(0.0)[2])
