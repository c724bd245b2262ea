"""Pace: a steady rate that catches up, and a flood that keeps its depth while it goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.pace import BUSY_S, IDLE_S, Flood, Steady


@given(st.lists(st.floats(0, 0.05), max_size=100))
def test_pace_keeps_its_rate(pauses: list[float]) -> None:
    """However the time passes, what was due so far is the elapsed time times the rate."""
    now_s, done = 5.0, 0
    pace = Steady(100, now_s, most=1000)

    for pause in pauses:
        now_s += pause
        done += pace.due(now_s)

    assert done == pytest.approx((now_s - 5.0) * 100, abs=1.01)


def test_pace_forgets_what_a_long_stall_left_undone() -> None:
    """After a stall at most `most` events come, and the rate goes on from there."""
    pace = Steady(100, 0.0, most=10)

    assert pace.due(60.0) == 10
    assert pace.due(60.055) == 5


def test_a_steady_pace_takes_no_cue() -> None:
    """The polite one goes on as ever, whatever the stage tells the noisy one."""
    pace = Steady(100, 0.0, most=10)

    pace.cue("rest")

    assert pace.due(0.05) == 5


def test_a_flood_fills_up_to_its_depth_while_it_goes() -> None:
    """It sends what is missing to the depth after `go`, and nothing before it or after `rest`."""
    flood = Flood(depth=10)

    before = flood.due(0.0, 0)
    flood.cue("go")
    full, partly, none = (flood.due(0.0, outstanding) for outstanding in (0, 7, 10))
    flood.cue("mark")
    still = flood.due(0.0, 0)
    flood.cue("rest")

    assert (before, full, partly, none, still) == (0, 10, 3, 0, 10)
    assert flood.due(0.0, 0) == 0


def test_a_flood_that_is_held_back_is_asleep() -> None:
    """It looks often while answers come in, and seldom when there is nothing to send."""
    flood = Flood(depth=10)
    asleep = flood.rest_s
    flood.cue("go")

    flood.due(0.0, 0)
    awake = flood.rest_s
    flood.due(0.0, 10)

    assert (asleep, awake, flood.rest_s) == (IDLE_S, BUSY_S, IDLE_S)
