"""The hook runner: no exception of a hook gets past it."""

import pytest

from policies.hook_runner import SLOW_US, HookRunner, PolicyFault
from policies.testing import BenchReporter
from policies.verdicts import check_request
from tests.support.core.chains import request
from tests.support.messages.every_case import for_each


def endless() -> None:
    """Recurse without an end."""
    endless()


RAISED = [
    RuntimeError("bug"),
    MemoryError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
]


@for_each(RAISED)
def test_any_exception_of_a_hook_is_a_fault_of_its_policy(error):
    """It is reported once, with policy and hook; `run` raises the fault, `tell` does not."""
    reporter = BenchReporter()
    hook_runner = HookRunner(reporter)

    def hook() -> None:
        raise error

    with pytest.raises(PolicyFault, match=f"^policy q, on_tick: it raised {type(error).__name__}$"):
        hook_runner.run("q", "on_tick", hook)
    hook_runner.notify("q", "close", hook)
    assert reporter.errors == [("q", "on_tick", error), ("q", "close", error)]


def test_a_return_value_is_passed_on_and_a_wrong_one_or_an_endless_recursion_is_a_fault():
    """The fault counts like an exception; the stack is unwound when it is made."""
    reporter = BenchReporter()
    assert HookRunner(reporter).run("q", "effective_quota", max, 3, 5) == 5
    assert reporter.errors == []

    reporter = BenchReporter()
    with pytest.raises(PolicyFault) as raised:
        HookRunner(reporter).run("limits", "on_request", lambda: None, check=check_request)
    assert str(raised.value) == "policy limits, on_request: expected a verdict, got None"
    assert len(reporter.errors) == 1

    reporter = BenchReporter()
    HookRunner(reporter).notify("q", "on_request", endless)
    assert [type(error) for _, _, error in reporter.errors] == [RecursionError]


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
    """The report has the entry, the hook and the duration; both calls are counted."""
    clock, reporter = Clock(), BenchReporter()
    hook_runner = HookRunner(reporter, clock)
    hook_runner.notify("q", "on_tick", clock.turn, SLOW_US - 1)
    assert reporter.slow == []
    hook_runner.notify("q", "on_tick", clock.turn, SLOW_US)
    assert reporter.slow == [("q", "on_tick", "", SLOW_US)]
    times = hook_runner.times["q", "on_tick"]
    assert (times.calls, times.took_us, times.slow) == (2, 2 * SLOW_US - 1, 1)


def test_a_slow_hook_is_reported_with_its_request_and_its_exception_is_raised():
    """It is measured however it ends."""
    clock, reporter = Clock(), BenchReporter()
    hook_runner = HookRunner(reporter, clock)

    def hook(asked: object, us: int) -> None:
        clock.turn(us)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        hook_runner.timed("q", "on_request", hook)(request(), 50_000)
    assert reporter.slow == [("q", "on_request", "Heartbeat", 50_000)]


def test_the_time_of_nested_hooks_is_not_counted():
    """An alarm that wakes a request is not slow because a later policy is."""
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
    """A hook is called directly."""
    hook_runner = HookRunner(BenchReporter())
    assert hook_runner.timed("q", "on_request", len) is len
    hook_runner.notify("q", "on_tick", len, "")
    assert hook_runner.times["q", "on_tick"].took_us == 0


def test_the_times_of_entries_that_are_gone_are_forgotten():
    """Their names may be others after each reload."""
    hook_runner = HookRunner(BenchReporter())
    for n in range(5):
        hook_runner.notify(f"entry {n}", "close", lambda: None)
    hook_runner.forget_others(["entry 3", "new"])
    assert list(hook_runner.times) == [("entry 3", "close")]
