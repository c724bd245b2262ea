"""The draws are those of Kafka's benchmark."""

import random
import statistics
from array import array

import pytest

from bench.purgatory.workload import (
    LOADS,
    draw_workload,
    interval_samples,
    latency_samples,
)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_half_take_longer_than_the_median_and_a_quarter_than_the_third_quartile(load):
    """Cut to whole milliseconds, never negative."""
    samples = sorted(latency_samples(load, random.Random(5), 40_000))
    assert samples[20_000] == pytest.approx(load.pct50_ms, rel=0.06)
    assert samples[30_000] == pytest.approx(load.pct75_ms, rel=0.06)
    assert samples[0] >= 0


@pytest.mark.parametrize("rate", [500, 40_000, 400_000])
def test_intervals_have_their_mean_though_they_are_whole(rate):
    """The cut fraction is carried to the next interval, so most are 0 at a high rate."""
    samples = interval_samples(rate, random.Random(5), 100_000)
    assert statistics.fmean(samples) == pytest.approx(1000 / rate, rel=0.02)


def test_a_workload_has_all_its_requests_in_order():
    """Slots count up, and hold as many as there are times to complete."""
    order = random.Random(5)
    intervals = interval_samples(40_000, order, 10_000)
    drawn = draw_workload(intervals, array("i", [7, 8]), 5000, order)
    pairs = drawn.pairs()
    assert sum(count for _, count in pairs) == drawn.requests == 5000
    assert [at_ms for at_ms, _ in pairs] == sorted({at_ms for at_ms, _ in pairs})
    assert drawn.target == pytest.approx(40_000, rel=0.1)
    assert set(drawn.latencies_ms) == {7, 8}
