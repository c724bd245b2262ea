"""Buckets that take no steps: the result is the one that the closed loop gives for them, to the rounding of sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.whatif.channel_loop import ChannelLoop
from pipeline.whatif.closed_loop import Rule, simulate
from pipeline.whatif.demand import ClientDemand, demand_of
from pipeline.whatif.entity_loop import EntityLoop
from pipeline.whatif.open_loop import OpenLoop

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
