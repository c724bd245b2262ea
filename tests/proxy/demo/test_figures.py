"""Figures: percentiles within five per cent, and a steady pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.figures import SMALLEST_MS, Latencies, Pace

LATENCIES = st.lists(st.floats(SMALLEST_MS, 60_000), min_size=1, max_size=200)


@given(LATENCIES, st.sampled_from([50, 90, 99, 100]))
def test_a_percentile_is_at_most_five_per_cent_too_large(values: list[float], percent: int) -> None:
    """The told percentile is never below the exact one and never over 5 % above it."""
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]

    told = latencies.maybe_percentile_ms(percent)

    assert told is not None
    assert exact * 0.999 <= told <= exact * 1.051


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


@given(st.lists(st.floats(0, 0.05), max_size=100))
def test_pace_keeps_its_rate(pauses: list[float]) -> None:
    """However the time passes, what was due so far is the elapsed time times the rate."""
    now_s, done = 5.0, 0
    pace = Pace(100, now_s, most=1000)

    for pause in pauses:
        now_s += pause
        done += pace.due(now_s)

    assert done == pytest.approx((now_s - 5.0) * 100, abs=1.01)


def test_pace_forgets_what_a_long_stall_left_undone() -> None:
    """After a stall at most `most` events come, and the rate goes on from there."""
    pace = Pace(100, 0.0, most=10)

    assert pace.due(60.0) == 10
    assert pace.due(60.055) == 5
