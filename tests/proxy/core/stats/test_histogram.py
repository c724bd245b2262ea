"""Histograms of durations: the bucket of each duration, and the statistics read from the buckets."""

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
"""Above FINE_US an edge may differ by this factor: a duration keeps at least ten bits."""


def counted(durations: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for us in durations:
        counts[bucket_of(us)] += 1
    return counts


def test_the_table_of_buckets_is_exact_to_the_microsecond() -> None:
    """A duration is above its bucket's lower edge and not above the upper one."""
    assert len(BUCKET) == FINE_US
    for us in range(FINE_US):
        bucket = BUCKET[us]
        if us > 1:
            assert edge_us(bucket - 1) < us <= edge_us(bucket)
        else:
            assert bucket == 0


def test_every_eighth_edge_is_a_power_of_two() -> None:
    """Scales can be halved without loss, as in OpenTelemetry's exponential histograms."""
    assert [edge_us(PER_DOUBLING * n) for n in range(31)] == [2.0**n for n in range(31)]


@given(ANY_US)
@example(FINE_US - 1)
@example(FINE_US)
@example(1 << 30)
@example((1 << 30) + 1)
@example(0)
@example(-1)
def test_any_duration_has_its_bucket(us: int) -> None:
    """It is exact within the table and within 1.6 % of an edge above it; the last bucket takes the rest."""
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
def test_a_longer_duration_is_never_in_an_earlier_bucket(one: int, other: int) -> None:
    """This holds across the joints of the table too."""
    less, more = sorted((one, other))
    assert bucket_of(less) <= bucket_of(more)


def test_no_bucket_is_skipped_at_the_joints_of_the_table() -> None:
    """Where the table changes to a coarser step, the bucket stays or is the next one."""
    for shift in (16, 22, 28, 30):
        before, at = bucket_of((1 << shift) - 1), bucket_of(1 << shift)
        assert at - before in (0, 1)


@given(st.lists(st.integers(2, 1 << 29), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_quantile_is_the_edge_above_the_exact_one(durations: list[int], share: float) -> None:
    """Its error is one bucket and the table's 1.6 % at most."""
    rank = max(0, -int(-share * len(durations) // 1) - 1)
    exact = sorted(durations)[rank]
    told = quantile_us(counted(durations), share)
    assert exact / 1.016 <= told <= exact * 2 ** (1 / PER_DOUBLING) * 1.016


@given(st.lists(st.integers(2, 1 << 29), min_size=1, max_size=60))
def test_the_sum_is_exact_to_half_a_bucket(durations: list[int]) -> None:
    """Each duration counts as the middle of its bucket; the table's 1.6 % are added. Without any it is 0."""
    assert abs(total_us(counted(durations)) / sum(durations) - 1) < 0.065
    assert quantile_us(counted([]), 0.99) == total_us(counted([])) == 0


@given(st.lists(st.lists(ANY_US, max_size=20), max_size=5))
def test_histograms_can_be_added(parts: list[list[int]]) -> None:
    """The sum equals a histogram of all their durations."""
    assert joined(map(counted, parts)) == counted([us for part in parts for us in part])
