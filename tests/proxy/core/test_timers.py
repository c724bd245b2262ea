"""Timers: due ones fire once, in order; cancelled ones never."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.timers import Timers


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans())), st.lists(st.integers(0, 20)))
def test_every_timer_that_is_not_cancelled_fires_once_in_order_of_its_time(wanted, steps):
    """Against a sorted list; equal times in the order they were set."""
    timers = Timers()
    fired: list[int] = []
    made = [
        (timers.arm(at, lambda _now, n=n: fired.append(n)), at, cancel)
        for n, (at, cancel) in enumerate(wanted)
    ]
    for timer, _, cancel in made:
        if cancel:
            timer.cancel()
    now = 0
    for step in [*steps, 100]:
        now += step
        timers.advance(now)
        due = [n for n, (_, at, cancel) in enumerate(made) if at <= now and not cancel]
        assert sorted(fired) == sorted(due)
    assert fired == [
        n for at, n in sorted((at, n) for n, (_, at, cancel) in enumerate(made) if not cancel)
    ]
    assert timers.next_ms() is None


def test_a_timer_may_arm_another_that_is_due_now():
    """It fires in the same advance."""
    timers = Timers()
    fired: list[int] = []
    timers.arm(5, lambda now: timers.arm(now, fired.append))
    timers.advance(7)
    assert fired == [7]


def test_the_next_time_passes_over_cancelled_ones():
    """So the driver does not wake for nothing."""
    timers = Timers()
    first = timers.arm(5, lambda _: None)
    timers.arm(9, lambda _: None)
    assert timers.next_ms() == 5
    first.cancel()
    assert first.cancelled
    assert timers.next_ms() == 9
