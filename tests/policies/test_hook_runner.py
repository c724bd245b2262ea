"""The wall around policies: nothing that a hook raises passes it."""

from __future__ import annotations

import pytest

from policies.hook_runner import SLOW_US, HookRunner, PolicyFault
from policies.testing import BenchReporter
from policies.verdicts import check_request
from tests.support.chains import request


def endless() -> None:
    """A recursion without an end."""
    endless()


RAISED = [
    RuntimeError("bug"),
    MemoryError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_hook_raises_is_a_fault_of_its_policy(error):
    """Reported once, with policy and hook; `run` raises the fault, `tell` does not."""
    reporter = BenchReporter()
    hook_runner = HookRunner(reporter)

    def hook() -> None:
        raise error

    with pytest.raises(PolicyFault, match=f"^policy q, on_tick: it raised {type(error).__name__}$"):
        hook_runner.run("q", "on_tick", hook)
    hook_runner.notify("q", "close", hook)
    assert reporter.errors == [("q", "on_tick", error), ("q", "close", error)]


def test_a_recursion_without_end_is_a_fault_of_its_policy():
    """The stack is whole again when the fault is made."""
    reporter = BenchReporter()
    HookRunner(reporter).notify("q", "on_request", endless)
    assert [type(error) for _, _, error in reporter.errors] == [RecursionError]


def test_nonsense_is_a_fault_that_says_what_was_expected():
    """As bad as an exception."""
    reporter = BenchReporter()
    with pytest.raises(PolicyFault) as raised:
        HookRunner(reporter).run("limits", "on_request", lambda: None, check=check_request)
    assert str(raised.value) == "policy limits, on_request: expected a verdict, got None"
    assert len(reporter.errors) == 1


def test_what_a_hook_returns_comes_through():
    """With its arguments as they were."""
    reporter = BenchReporter()
    assert HookRunner(reporter).run("q", "effective_quota", max, 3, 5) == 5
    assert reporter.errors == []


# -- time ---------------------------------------------------------------------------------------


class Clock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        return self.us

    def turn(self, us: int) -> None:
        self.us += us


def test_a_hook_of_five_milliseconds_is_reported_and_a_shorter_one_is_not():
    """With the entry, the hook and how long; both are counted."""
    clock, reporter = Clock(), BenchReporter()
    hook_runner = HookRunner(reporter, clock)
    hook_runner.notify("q", "on_tick", clock.turn, SLOW_US - 1)
    assert reporter.slow == []
    hook_runner.notify("q", "on_tick", clock.turn, SLOW_US)
    assert reporter.slow == [("q", "on_tick", "", SLOW_US)]
    times = hook_runner.times["q", "on_tick"]
    assert (times.calls, times.took_us, times.slow) == (2, 2 * SLOW_US - 1, 1)


def test_a_timed_hook_says_which_request_it_was_about_and_raises_what_it_raises():
    """It is measured however it ends."""
    clock, reporter = Clock(), BenchReporter()
    hook_runner = HookRunner(reporter, clock)

    def hook(asked: object, us: int) -> None:
        clock.turn(us)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        hook_runner.timed("q", "on_request", hook)(request(), 50_000)
    assert reporter.slow == [("q", "on_request", "Heartbeat", 50_000)]


def test_what_a_hook_has_others_do_is_not_its_own_time():
    """An alarm that wakes a request is not slow because the policy behind it is."""
    clock, reporter = Clock(), BenchReporter()
    hook_runner = HookRunner(reporter, clock)

    def alarm() -> None:
        clock.turn(10)
        hook_runner.timed("other", "on_request", lambda _: clock.turn(60_000))(request())
        clock.turn(20)

    hook_runner.notify("q", "call_at", alarm)
    assert hook_runner.times["q", "call_at"].took_us == 30
    assert reporter.slow == [("other", "on_request", "Heartbeat", 60_000)]


def test_without_a_clock_nothing_is_measured():
    """And a hook is called straight."""
    hook_runner = HookRunner(BenchReporter())
    assert hook_runner.timed("q", "on_request", len) is len
    hook_runner.notify("q", "on_tick", len, "")
    assert hook_runner.times["q", "on_tick"].took_us == 0
