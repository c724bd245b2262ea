"""Metrics with values: histograms as the exporters need them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stats.histogram import BUCKETS, FINE_US, bucket_of
from proxy.telemetry.metrics.families import distribution, place_of
from proxy.telemetry.metrics.names import STAGE, STEP

DURATIONS = st.lists(st.integers(min_value=0, max_value=FINE_US - 1), max_size=50)


def counted(durations: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for us in durations:
        counts[bucket_of(us)] += 1
    return counts


@given(DURATIONS, st.sampled_from([STAGE.edges, STEP.edges]))
def test_each_edge_counts_the_durations_up_to_it(durations: list[int], edges: range) -> None:
    """No duration is rounded across an edge, because the edges are edges of the original buckets."""
    found = distribution(counted(durations), edges)

    assert list(found.below) == [sum(us <= 2**edge for us in durations) for edge in edges]
    assert found.total == len(durations)


@given(DURATIONS)
def test_the_sum_is_exact_to_half_a_bucket(durations: list[int]) -> None:
    """A bucket is 9 % wide, so its middle is less than 5 % away; up to a microsecond counts as 0."""
    found = distribution(counted(durations), STAGE.edges)
    true_s = sum(us for us in durations if us > 1) / 1e6

    assert found.sum == pytest.approx(true_s, rel=0.05)


def test_a_copied_histogram_does_not_change() -> None:
    """The request path counts on in the original."""
    counts = counted([500, 500])
    found = distribution(counts, STAGE.edges)
    counts[bucket_of(500)] += 1

    assert found.total == 2
    assert max(found.below) == 2


@given(st.integers(min_value=0, max_value=2**32), st.sampled_from([STAGE.edges, STEP.edges]))
def test_a_duration_has_its_place_among_the_edges(us: int, edges: range) -> None:
    """It is the first edge that is not below it, or one after the last."""
    place = place_of(us, edges)

    assert place == next((n for n, edge in enumerate(edges) if us <= 2**edge), len(edges))
