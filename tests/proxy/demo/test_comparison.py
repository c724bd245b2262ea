"""Comparison: what happened between two statuses, and medians that one disturbed sample does not move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.experiment import (
    Comparison,
    Condition,
    Sample,
    Statuses,
    maybe_percentile_ms,
    sample,
)
from proxy.demo.processes import ClientStatus

SECOND_NS = 1_000_000_000


def status(at_s: float, count: int, *latencies_us: int) -> ClientStatus:
    """Return a status of a client that has `count` acks and answers at a time."""
    at_ns = int(at_s * SECOND_NS)
    return ClientStatus(
        acked=count,
        latencies_us=list(latencies_us),
        at_ns=at_ns,
        answered=count,
        answered_at_ns=at_ns - 50_000_000,
    )


def test_a_sample_is_what_happened_between_two_statuses() -> None:
    """Rates are differences over the clients' own times; latencies are those of the later status."""
    before = Statuses(polite=status(10, 1000, 99_000), noisy=status(10, 50_000))
    after = Statuses(polite=status(12, 1400, 7_000), noisy=status(11, 50_100))

    assert sample(before, after) == Sample(200, 7, 7, 100)


def test_a_count_that_was_not_renewed_gives_no_rate() -> None:
    """Two statuses with the same count of the library give 0, not a division by zero."""
    noisy = status(10, 5)
    before = Statuses(polite=status(10, 0), noisy=noisy)

    assert sample(before, Statuses(polite=status(11, 1, 5_000), noisy=noisy)).noisy_per_s == 0


@given(
    st.lists(st.integers(0, 60_000_000), min_size=1, max_size=200),
    st.sampled_from([50, 90, 99, 100]),
)
def test_a_percentile_is_a_measured_value(latencies_us: list[int], percent: int) -> None:
    """At least `percent` of all latencies are no larger, and no smaller measured value has that property."""
    found = maybe_percentile_ms(latencies_us, percent)

    assert found is not None
    needed = len(latencies_us) * percent / 100
    assert sum(each / 1000 <= found for each in latencies_us) >= needed
    assert sum(each / 1000 < found for each in latencies_us) < needed
    assert maybe_percentile_ms([], percent) is None


def test_a_condition_is_told_by_its_medians() -> None:
    """One disturbed sample of five moves no figure beyond its neighbours."""
    comparison = Comparison(limit_per_s=100)
    for value in (5.0, 6.0, 500.0, 7.0, 8.0):
        comparison.add(Condition.QUOTA, Sample(200 + value, value, 2 * value, 100 + value))

    assert comparison.maybe_medians(Condition.QUOTA) == Sample(207, 7, 14, 107)
    assert comparison.maybe_medians(Condition.ALONE) is None


def test_the_share_of_others_is_a_median_of_the_quiet_conditions() -> None:
    """Samples without a quota are left out; what is unknown counts as nothing."""
    comparison = Comparison(limit_per_s=100)
    for others in (0.02, 0.04, 0.9):
        comparison.add(Condition.ALONE, Sample(200, 7, 9, 0), others)
        comparison.add(Condition.NO_QUOTA, Sample(200, 7, 9, 0), 1.0)
        comparison.add(Condition.QUOTA, Sample(200, 7, 9, 0), None)

    assert comparison.others() == 0.04
    assert Comparison(limit_per_s=100).others() == 0


@pytest.mark.parametrize(
    ("p50s", "spread"),
    [([10] * 5, 0), ([8, 9, 10, 11, 12], 0.3), ([10] * 7 + [99], 0), ([1, 9], 0)],
    ids=["steady", "varying", "one disturbed", "too few to know"],
)
def test_the_spread_is_the_distance_of_the_quartiles(p50s: list[float], spread: float) -> None:
    """A steady machine has none, one disturbed sample changes nothing, and only samples alone count."""
    comparison = Comparison(limit_per_s=100)
    for value in p50s:
        comparison.add(Condition.ALONE, Sample(200, value, value, 0))
        comparison.add(Condition.NO_QUOTA, Sample(200, 100 * value * value, value, 0))

    assert comparison.spread() == pytest.approx(spread)
