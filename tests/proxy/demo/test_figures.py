"""Figures: percentiles within one per cent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.figures import SMALLEST_MS, Latencies

LATENCIES = st.lists(st.floats(SMALLEST_MS, 60_000), min_size=1, max_size=200)


@given(LATENCIES, st.sampled_from([50, 90, 99, 100]))
def test_a_percentile_is_at_most_one_per_cent_too_large(values: list[float], percent: int) -> None:
    """The told percentile is never below the exact one and never over 1 % above it."""
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]

    told = latencies.maybe_percentile_ms(percent)

    assert told is not None
    assert exact * 0.999 <= told <= exact * 1.0101


@given(LATENCIES, LATENCIES)
def test_joined_histograms_are_one_histogram(left: list[float], right: list[float]) -> None:
    """Joining what two histograms took equals counting everything in one."""
    parts, whole, joined = [Latencies(), Latencies()], Latencies(), Latencies()
    for part, values in zip(parts, (left, right), strict=True):
        for value in values:
            part.add(value)
            whole.add(value)

    for part in parts:
        joined.join(part.take())

    assert joined.take() == whole.take()


def test_no_latency_has_no_percentile() -> None:
    """An empty histogram tells None, also after its buckets were taken."""
    latencies = Latencies()
    latencies.add(1.0)
    latencies.take()

    assert latencies.maybe_percentile_ms(50) is None
