"""Figures of the memory cases."""

from bench.memory.figures import (
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
