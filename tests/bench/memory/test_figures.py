"""Figures of the memory cases."""

import math

import pytest

from bench.goals import min_goal
from bench.memory.figures import (
    Case,
    Resident,
    longest_gap,
    mib,
    milliseconds,
    seconds,
)
from bench.memory.frames import MIB


def test_the_longest_gap_counts_both_ends() -> None:
    """Without any event all is one gap; the gaps before the first and after the last count too."""
    assert longest_gap([], 2, 9) == 7
    assert longest_gap([4, 3], 2, 9) == 5
    assert longest_gap([8, 3], 2, 9) == 5


@pytest.mark.parametrize(("peak_mib", "met"), [(99.0, True), (110.0, True), (110.2, False)])
def test_resident_memory_may_be_a_tenth_above(peak_mib: float, met: bool) -> None:  # noqa: FBT001 - a table
    """Of base and bound together."""
    goal = Resident(60 * MIB, peak_mib * MIB).goal("it", 40 * MIB)
    assert goal.must == 110
    assert goal.met is met


def test_a_proxy_that_ended_meets_no_goal_of_memory() -> None:
    """Its peak is unknown."""
    assert Resident(MIB, math.inf).goal("it", MIB).met is False


def test_a_case_fails_by_a_missed_goal_or_by_not_ending() -> None:
    """Otherwise it has passed."""
    case = Case("x", "x", "", goals=[min_goal("good", "", 2, 1)])
    assert not case.failed
    case.goals.append(min_goal("bad", "", 0, 1))
    assert case.failed
    assert Case("x", "x", "", error="it fell").failed


def test_an_unknown_figure_is_a_dash() -> None:
    """Known ones are in the unit of their table."""
    assert mib(None) == mib(math.inf) == seconds(None) == seconds(math.inf) == "-"
    assert milliseconds(math.inf) == "-"
    assert mib(3 * MIB // 2) == "1.5"
    assert milliseconds(0.25) == "250"
    assert seconds(1.234) == "1.23"
