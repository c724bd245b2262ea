"""The draws are those of Kafka's benchmark."""

import random
import statistics
from array import array

import pytest

from bench.purgatory.workload import (
    KEYS,
    LOADS,
    Workload,
    draw_keys,
    draw_workload,
    interval_samples,
    latency_samples,
    saved,
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


def test_a_part_of_a_workload_is_its_beginning():
    """Whole milliseconds of it."""
    whole = Workload(array("q", [0, 2, 3, 2, 4, 1]), array("i", [1, 2, 3, 4, 5]))
    part = whole.first(3)
    assert part.pairs() == [(0, 2), (3, 2)]
    assert list(part.latencies_ms) == [1, 2, 3, 4]
    assert whole.first(9) == whole


def test_a_workload_is_read_as_it_was_written(tmp_path):
    """By another process."""
    drawn = Workload(array("q", [0, 2, 3, 1]), array("i", [1, 200, 3]))
    drawn.save(tmp_path / "all")
    assert saved(tmp_path / "all") == drawn


def test_every_request_of_a_run_has_the_same_keys():
    """Three of a hundred names; the same name may be drawn twice, as in Kafka."""
    keys = draw_keys(random.Random(1))
    assert len(keys) == KEYS
    assert draw_keys(random.Random(1)) == keys
