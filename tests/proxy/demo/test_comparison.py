"""Comparison: what happens between two marks, and medians that one disturbed sample does not move."""

from __future__ import annotations

import pytest

from proxy.demo.comparison import Arm, Comparison, Marks, Sample, sample
from proxy.demo.figures import Latencies
from proxy.demo.messages import Tick

SECOND_NS = 1_000_000_000


def tick(at_s: float, count: int, latency_ms: float | None = None) -> Tick:
    """Return a Tick of a client that has `count` acks and answers at a time."""
    latencies = Latencies()
    if latency_ms is not None:
        latencies.add(latency_ms)
    at_ns = int(at_s * SECOND_NS)
    return Tick(
        acked=count,
        latency=latencies.take(),
        at_ns=at_ns,
        answered=count,
        answered_at_ns=at_ns - 50_000_000,
    )


def test_a_sample_is_what_happened_between_two_marks() -> None:
    """Rates are differences over the clients' own times; latencies are those told by the later one."""
    before = Marks(polite=tick(10, 1000, 99.0), noisy=tick(10, 50_000))
    after = Marks(polite=tick(12, 1400, 7.0), noisy=tick(11, 50_100))

    taken = sample(before, after)

    assert taken.records_per_s == 200
    assert taken.noisy_per_s == 100
    assert taken.p50_ms == taken.p99_ms == pytest.approx(7, rel=0.011)


def test_a_polite_one_that_gets_nothing_done_has_no_sample() -> None:
    """Without an acknowledgement there is no latency, and none is made up."""
    before = Marks(polite=tick(10, 1000, 99.0), noisy=tick(10, 0))

    with pytest.raises(ValueError, match="polite"):
        sample(before, Marks(polite=tick(12, 1000), noisy=tick(11, 0)))


def test_a_noisy_one_that_was_not_counted_anew_has_no_rate() -> None:
    """Two marks with the same count of the library make no division by nought."""
    noisy = tick(10, 5)
    before = Marks(polite=tick(10, 0), noisy=noisy)

    assert sample(before, Marks(polite=tick(11, 1, 5.0), noisy=noisy)).noisy_per_s == 0


def test_an_arm_is_told_by_its_medians() -> None:
    """One sample of five that the machine spoilt moves no figure beyond its neighbours."""
    comparison = Comparison(limit_per_s=100)
    for value in (5.0, 6.0, 500.0, 7.0, 8.0):
        comparison.add(Arm.WITH, Sample(200 + value, value, 2 * value, 100 + value))

    assert comparison.maybe_typical(Arm.WITH) == Sample(207, 7, 14, 107)
    assert comparison.maybe_typical(Arm.ALONE) is None


def test_what_others_had_is_a_median_of_the_quiet_arms() -> None:
    """While the noisy one floods nobody is asked; what is not known is nothing."""
    comparison = Comparison(limit_per_s=100)
    for others in (0.02, 0.04, 0.9):
        comparison.add(Arm.ALONE, Sample(200, 7, 9, 0), others)
        comparison.add(Arm.WITHOUT, Sample(200, 7, 9, 0), 1.0)
        comparison.add(Arm.WITH, Sample(200, 7, 9, 0), None)

    assert comparison.others() == 0.04
    assert Comparison(limit_per_s=100).others() == 0


@pytest.mark.parametrize(
    ("p50s", "unrest"),
    [([10] * 5, 0), ([8, 9, 10, 11, 12], 0.3), ([10] * 7 + [99], 0), ([1, 9], 0)],
    ids=["still", "restless", "one disturbed", "too few to know"],
)
def test_unrest_is_how_far_quartiles_are_apart(p50s: list[float], unrest: float) -> None:
    """A steady machine has none; what swings has much; one sample that was disturbed is not that."""
    comparison = Comparison(limit_per_s=100)
    for value in p50s:
        comparison.add(Arm.ALONE, Sample(200, value, value, 0))
        comparison.add(Arm.WITHOUT, Sample(200, 100 * value * value, value, 0))

    assert comparison.unrest() == pytest.approx(unrest)
