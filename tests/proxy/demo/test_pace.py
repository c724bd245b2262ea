"""Pace: a steady rate that catches up, and a flood that keeps its depth while it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.clients import FLOOD_DEPTH, Pace


@given(st.lists(st.floats(0, 0.05), max_size=100))
def test_a_steady_pace_keeps_its_rate(pauses: list[float]) -> None:
    """However the time passes, what was due so far is the elapsed time times the rate."""
    now_s, done = 5.0, 0
    pace = Pace(100)
    pace.due(now_s, 0)

    for pause in pauses:
        now_s += pause
        done += pace.due(now_s, 0)

    assert done == pytest.approx((now_s - 5.0) * 100, abs=1.01)


def test_a_steady_pace_does_not_make_up_for_a_long_stall() -> None:
    """After a stall at most a tenth of a second's records are due, and the rate continues from there."""
    pace = Pace(100)
    pace.due(0.0, 0)

    assert pace.due(60.0, 0) == 10
    assert pace.due(60.055, 0) == 5


def test_a_steady_pace_obeys_no_command() -> None:
    """The polite producer sends at its rate, whether or not the noisy one was started."""
    pace = Pace(100)
    pace.due(0.0, 0)
    pace.is_started = True

    assert pace.due(0.05, 5000) == 5


def test_a_flood_fills_up_to_its_depth_while_it_runs() -> None:
    """After `start` it sends as many as are missing to the depth, before and after nothing."""
    pace = Pace(None)

    before = pace.due(0.0, 0)
    pace.is_started = True
    during = [pace.due(0.0, outstanding) for outstanding in (0, FLOOD_DEPTH - 3, FLOOD_DEPTH)]
    pace.is_started = False

    assert (before, during, pace.due(0.0, 0)) == (0, [FLOOD_DEPTH, 3, 0], 0)


def test_a_throttled_flood_polls_rarely() -> None:
    """It polls often while answers arrive, and rarely while there is nothing to send."""
    pace = Pace(None)
    waiting_s = pace.poll_s
    pace.is_started = True

    pace.due(0.0, 0)
    busy_s = pace.poll_s
    pace.due(0.0, FLOOD_DEPTH)

    assert busy_s < waiting_s == pace.poll_s
