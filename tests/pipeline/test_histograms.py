"""Histograms of the pipeline: the same figures as those of the telemetry that wrote them. No Spark."""

import random

import numpy as np
import pyarrow as pa
import pytest

from pipeline.histograms import Histograms, merged
from proxy.core.stats import histogram

SHARES = (0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 1.0)


@pytest.mark.parametrize("groups", [1, 300, 50_000])
def test_merged_histograms_have_the_quantiles_of_the_telemetry(groups: int) -> None:
    """Of 1,000 rows in one, in 300 and in nearly as many groups: quantiles, totals and counts of the added-up lists."""
    draw = random.Random(7)
    dense: dict[int, list[int]] = {}
    owner, buckets, counts = [], [], []
    for _ in range(1000):
        group = draw.randrange(groups)
        held = sorted(draw.sample(range(histogram.BUCKETS), draw.choice((0, 1, 1, 3, 30))))
        numbers = [draw.choice((1, 2, draw.randint(1, 10**9))) for _ in held]
        owner.append(group)
        buckets.append(held if held or draw.random() < 0.5 else None)
        counts.append(numbers if buckets[-1] is not None else None)
        sums = dense.setdefault(group, [0] * histogram.BUCKETS)
        for bucket, count in zip(held, numbers, strict=True):
            sums[bucket] += count
    lists = merged(
        pa.chunked_array([buckets], pa.list_(pa.int32())),
        pa.chunked_array([counts], pa.list_(pa.int64())),
        np.array(owner),
        groups,
    )
    found = Histograms(*lists)
    quantiles = [found.quantiles_us(share) for share in SHARES]
    totals = found.totals_us()

    assert len(totals) == groups
    assert found.counts.sum() == sum(map(sum, dense.values()))
    for group, sums in dense.items():
        assert found.counts[group] == sum(sums)
        assert totals[group] == pytest.approx(histogram.total_us(sums))
        expected = [histogram.quantile_us(sums, share) for share in SHARES]
        assert [each[group] for each in quantiles] == pytest.approx(expected, rel=1e-12)


def test_no_times_have_no_quantile() -> None:
    """An empty histogram's figures are 0, as in the telemetry; also beside others, and if there is none at all."""
    for counts in ([[]], [[], [3], []], []):
        lists = [[40] * len(each) for each in counts]
        found = Histograms(
            pa.array(lists, pa.list_(pa.int32())), pa.array(counts, pa.list_(pa.int64()))
        )
        for empty in (place for place, each in enumerate(counts) if not each):
            assert found.quantiles_us(0.5)[empty] == found.totals_us()[empty] == 0.0
            assert found.counts[empty] == 0
        assert len(found.counts) == len(counts)
