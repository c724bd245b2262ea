"""The spread of window rates equals the plain definition, for few large groups as for many small ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rates import WindowRates
from pipeline.recommend.spread import Spread

INSTANCES = 3
ROWS = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, INSTANCES - 1), st.integers(0, 30), st.integers(1, 50)
    ),
    max_size=80,
)
PERCENTILES = st.sampled_from([1.0, 50.0, 90.0, 99.9, 100.0])


def spread_of(rows: list[tuple[int, int, int, int]], percentile: float, fit_until_s: int) -> Spread:
    """`rows`: group, instance, second and rate."""
    ordered = sorted(rows)
    group, instance, second, rate = (
        np.array([row[place] for row in ordered], np.int64) for place in range(4)
    )
    amount = rate.astype(np.float64)
    found = WindowRates(group * INSTANCES + instance, second, amount, amount)
    return Spread.of(found, INSTANCES, percentile, fit_until_s)


def nearest_rank(values: list[int], percentile: float) -> float:
    return sorted(values)[max(math.ceil(len(values) * percentile / 100 - 1e-9), 1) - 1]


@given(ROWS, PERCENTILES, st.integers(0, 31))
def test_every_figure_is_that_of_its_group(
    rows: list[tuple[int, int, int, int]], percentile: float, fit_until_s: int
) -> None:
    """Percentiles are values that occurred; the fitted one is of the first seconds only."""
    found = spread_of(rows, percentile, fit_until_s)
    assert found.group.tolist() == sorted({row[0] for row in rows})
    for place, group in enumerate(found.group):
        mine = [row for row in rows if row[0] == group]
        rates = [row[3] for row in mine]
        early = [row[3] for row in mine if row[2] < fit_until_s]
        assert found.value[place] == nearest_rank(rates, percentile)
        assert found.max[place] == max(rates)
        assert (found.windows[place], found.total[place]) == (len(mine), sum(rates))
        sums = [sum(row[3] for row in mine if row[1] == each) for each in {row[1] for row in mine}]
        assert found.instances[place] == len(sums)
        assert found.skew[place] == pytest.approx(max(sums) * len(sums) / sum(sums))
        if early:
            assert found.fitted[place] == nearest_rank(early, percentile)
        else:
            assert math.isnan(found.fitted[place])


def test_large_groups_are_sorted_as_small_ones() -> None:
    """They take another way."""
    rows = [
        (group, 0, second, (second * 37) % 101 + 1) for group in (1, 3) for second in range(500)
    ]
    found = spread_of(rows, 99, 250)
    assert found.value.tolist() == [nearest_rank([row[3] for row in rows[:500]], 99)] * 2
    for figures, percentile in ((found.p50, 50), (found.p99, 99), (found.p999, 99.9)):
        assert figures.tolist() == [nearest_rank([row[3] for row in rows[:500]], percentile)] * 2
    assert found.max.tolist() == [101, 101]
    assert found.fitted.tolist() == [nearest_rank([row[3] for row in rows[:250]], 99)] * 2
    assert found.take(np.array([1])).group.tolist() == [3]
