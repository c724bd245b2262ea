"""Figures of the memory cases."""

import math

from bench.goals import min_goal
from bench.memory.figures import (
    Case,
    Resident,
    longest_gap,
)
from bench.memory.frames import MIB


def test_the_longest_gap_counts_both_ends() -> None:
    """Without any event all is one gap; the gaps before the first and after the last count too."""
    assert longest_gap([], 2, 9) == 7
    assert longest_gap([4, 3], 2, 9) == 5
    assert longest_gap([8, 3], 2, 9) == 5


def test_resident_memory_may_be_a_tenth_above() -> None:
    """Of base and bound together."""
    for peak_mib, met in ((99.0, True), (110.0, True), (110.2, False)):
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
