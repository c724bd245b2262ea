"""Bulk flows beside a small client: what is computed, what is written, and one short run."""

import pytest

from bench.build import maybe_compiler
from bench.fairness import Found, Round, measure
from bench.shapes import Shape
from bench.variants import DIRECT, HAPROXY, SLUICE

FOUND = Found(
    {
        DIRECT: [Round(1, 2, (10, 10)), Round(1, 3, (10, 10))],
        SLUICE: [Round(4, 12, (9, 11)), Round(4, 33, (10, 10))],
        HAPROXY: [Round(3, 10, (8, 8)), Round(3, 11, (8, 8))],
    },
    {SLUICE: "sluice 1.0"},
)


def test_a_flow_is_as_far_from_the_mean_as_the_farthest_one() -> None:
    """As a part of the mean; without any bytes it is all of it."""
    assert Round(1, 2, (7, 10, 13)).apart == pytest.approx(0.3)
    assert Round(1, 2, (10, 10)).apart == 0
    assert Round(1, 2, (0, 0)).apart == 1


def test_what_is_added_is_taken_inside_each_round() -> None:
    """Beside HAProxy; beside nothing where it is not installed."""
    assert FOUND.added_ms() == [2, 22]
    alone = Found({name: FOUND.rounds[name] for name in (DIRECT, SLUICE)})
    assert alone.added_ms() == [10, 30]


@pytest.mark.skipif(maybe_compiler() is None, reason="no C compiler")
def test_each_flow_is_measured_by_itself() -> None:
    """Through live programs, as short as can be."""
    bulk = Shape("bulk", "bulk", 1, depth=2, value_bytes=1 << 16)
    found = measure(bulk, flows=3, rounds=1, seconds=0.2, seed=1)
    assert {DIRECT, SLUICE} <= set(found.rounds)
    for (one,) in found.rounds.values():
        assert len(one.flows) == 3
        assert min(one.flows) > 0
        assert one.p99_ms >= one.p50_ms > 0
