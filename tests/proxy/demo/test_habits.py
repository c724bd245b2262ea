"""Habits: rates that change with time, and clients that wait for replies."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.config import QuotaConfig
from policies.validation import try_convert
from proxy.demo.habits import DEPTH, HABITS, Habit, HabitPace, quota_lines


def test_a_habit_repeats() -> None:
    """Busy, quiet, busy again; without a quiet time the rate is steady."""
    habit = Habit(60, 4, 8, 6)

    assert [habit.rate(s) for s in (0, 3.9, 4, 9.9, 10, 14)] == [60, 60, 8, 8, 60, 8]
    assert {Habit(25).rate(s / 3) for s in range(20)} == {25}


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=100))
def test_a_client_that_is_not_delayed_keeps_its_rate(pauses: list[float]) -> None:
    """The records that were due so far are the elapsed time times the rate, whenever it is asked."""
    pace, now_s, done = HabitPace(Habit(50)), 7.0, 0
    pace.due(now_s, 0)

    for pause in pauses:
        now_s += pause
        done += pace.due(now_s, 0)

    assert done == pytest.approx((now_s - 7.0) * 50, abs=1.01)


def test_a_delayed_client_sends_later_not_less() -> None:
    """With DEPTH records unanswered it waits; what it could not send it sends when replies have come."""
    pace = HabitPace(Habit(60, 1, 0, 9))
    pace.due(0.0, 0)

    sent = [pace.due(n / 100, DEPTH) for n in range(1, 201)]
    after = [pace.due(2.0 + n / 100, 0) for n in range(1, 20)]

    assert set(sent) == {0}
    assert max(after) == DEPTH
    assert sum(after) == pytest.approx(60, abs=2)


def test_the_quotas_are_valid() -> None:
    """The policy takes them; one client wants more than its quota, and one is far below."""
    config, problems = try_convert(QuotaConfig, {"quotas": yaml.safe_load(quota_lines())})

    assert not problems
    assert config is not None
    assert {line.client_id: line.request_rate for line in config.quotas} == {
        name: habit.quota for name, habit in HABITS.items()
    }
    wants = {name: habit.busy_per_s / (habit.quota or 1) for name, habit in HABITS.items()}
    assert wants["alice"] > 1
    assert min(wants.values()) < 1 / 3
