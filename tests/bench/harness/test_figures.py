"""Statistics of measured values."""

import math

import pytest

from bench.harness.figures import Spread, maybe_spread, median, quantile, spread


def test_a_spread_is_the_median_with_both_ends() -> None:
    """The median of an even number of values lies between the middle two."""
    assert spread([4.0, 1.0, 2.0, 10.0]) == Spread(3.0, 1.0, 10.0)


def test_no_values_have_no_spread() -> None:
    """`spread` raises ValueError; `maybe_spread` returns None."""
    assert maybe_spread([]) is None
    with pytest.raises(ValueError, match="at least 1"):
        spread([])


def test_a_quantile_is_one_of_the_values() -> None:
    """It is the nearest rank, in any order of the values."""
    values = [float(n) for n in range(100, 0, -1)]
    assert quantile(values, 0.99) == 99
    assert quantile(values, 1.0) == 100
    assert quantile([3.0], 0.01) == 3


def test_no_values_have_an_infinite_quantile_and_median() -> None:
    """So a wait that never ended does not meet a goal."""
    assert quantile([], 0.99) == median([]) == math.inf
