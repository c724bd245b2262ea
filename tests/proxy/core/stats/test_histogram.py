"""Durations in buckets: where each one goes, and what can be read back."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.stats.histogram import (
    BUCKET,
    BUCKETS,
    FINE_US,
    PER_DOUBLING,
    bucket_of,
    edge_us,
    joined,
    quantile_us,
    total_us,
)

ANY_US = st.integers(-(1 << 40), 1 << 50) | st.integers(0, 1 << 17)
COARSE = 1 + 2 / (FINE_US >> 6)
"""Beyond FINE_US an edge may be off by so much: a duration keeps ten bits at least."""


def counted(durations: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for us in durations:
        counts[bucket_of(us)] += 1
    return counts


def test_the_table_is_right_to_the_microsecond() -> None:
    """A duration lies above its bucket's lower edge and not above its upper one."""
    assert len(BUCKET) == FINE_US
    for us in range(FINE_US):
        bucket = BUCKET[us]
        if us > 1:
            assert edge_us(bucket - 1) < us <= edge_us(bucket)
        else:
            assert bucket == 0


def test_every_eighth_edge_is_a_power_of_two() -> None:
    """So scales can be halved without loss, as OpenTelemetry's exponential buckets are."""
    assert [edge_us(PER_DOUBLING * n) for n in range(31)] == [2.0**n for n in range(31)]


@given(ANY_US)
@example(FINE_US - 1)
@example(FINE_US)
@example(1 << 30)
@example((1 << 30) + 1)
@example(0)
@example(-1)
def test_any_duration_has_its_bucket(us: int) -> None:
    """To the microsecond where the table reaches, and within 1.6 % of an edge beyond; the last takes the rest."""
    bucket = bucket_of(us)
    assert 0 <= bucket < BUCKETS
    if us <= 1:
        assert bucket == 0
    elif us < FINE_US:
        assert bucket == BUCKET[us]
    else:
        assert edge_us(bucket - 1) < us * 1.016
        if bucket < BUCKETS - 1:
            assert us <= edge_us(bucket) * 1.016


@given(ANY_US, ANY_US)
def test_who_took_longer_is_never_in_an_earlier_bucket(one: int, other: int) -> None:
    """The order of durations is the order of buckets, over the joints of the table too."""
    less, more = sorted((one, other))
    assert bucket_of(less) <= bucket_of(more)


def test_the_joints_of_the_table_fit() -> None:
    """Wherever the next coarser look begins, the bucket goes on from the one before."""
    for shift in (16, 22, 28, 30):
        before, at = bucket_of((1 << shift) - 1), bucket_of(1 << shift)
        assert at - before in (0, 1)


@given(st.lists(st.integers(2, 1 << 29), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_quantile_is_the_edge_above_the_exact_one(durations: list[int], share: float) -> None:
    """Never more than a bucket (and the table's 1.6 %) from what sorting would say."""
    rank = max(0, -int(-share * len(durations) // 1) - 1)
    exact = sorted(durations)[rank]
    told = quantile_us(counted(durations), share)
    assert exact / 1.016 <= told <= exact * 2 ** (1 / PER_DOUBLING) * 1.016


def test_of_none_there_is_no_quantile() -> None:
    """Nothing is 0, and takes no time."""
    assert quantile_us([0] * BUCKETS, 0.99) == 0
    assert total_us([0] * BUCKETS) == 0


@given(st.lists(st.integers(2, 1 << 29), min_size=1, max_size=60))
def test_the_sum_is_good_to_a_few_per_cent(durations: list[int]) -> None:
    """Each is taken for the middle of its bucket: within half a bucket and the table's 1.6 %."""
    assert abs(total_us(counted(durations)) / sum(durations) - 1) < 0.065


@given(st.lists(st.lists(ANY_US, max_size=20), max_size=5))
def test_histograms_add(parts: list[list[int]]) -> None:
    """Joined, they are as if all had been counted in one."""
    assert joined(map(counted, parts)) == counted([us for part in parts for us in part])
