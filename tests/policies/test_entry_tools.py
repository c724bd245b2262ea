"""The tools of a policy: what they refuse, and when they work."""

import pytest

from policies.entry_tools import MAX_BLOCKING_TIMEOUT_MS
from policies.testing import BenchHost, PolicyBench
from tests.support.plugins.tool_user import ToolUser


def test_a_policy_logs_counts_and_reads_the_time() -> None:
    """Lines of `__init__` are kept until the policy serves."""
    bench = PolicyBench(ToolUser, {}, now_ms=7)
    bench.advance(3)
    bench.ask(bench.request("Metadata"))
    assert bench.reporter.messages == [
        ("info", "made", {"at_ms": 0}),
        ("warning", "asked", {"at_ms": 10, "message": "a field"}),
    ]
    assert isinstance(bench.policy, ToolUser)
    assert bench.policy.asked.series == {("Metadata",): 1}


def test_metrics_are_made_in_init_only() -> None:
    """A policy that makes them per request would grow without a bound."""
    bench = PolicyBench(ToolUser, {})
    with pytest.raises(RuntimeError, match="counter is called after __init__"):
        bench.host.counter("late", "Help.")
    with pytest.raises(RuntimeError, match="histogram is called after __init__"):
        bench.host.histogram("late", "Help.", [1])


def test_slow_work_begins_when_the_policy_serves() -> None:
    """In `__init__` there is no proxy yet."""
    with pytest.raises(RuntimeError, match="run_blocking in __init__"):
        BenchHost().run_blocking(lambda: 1, lambda *_: None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((7, print), "work is 7, expected a function"),
        ((print, None), "then is None, expected a function"),
        (
            (print, print, 0),
            f"timeout_ms is 0, expected an integer in 1..{MAX_BLOCKING_TIMEOUT_MS}",
        ),
        ((print, print, 1.5), "timeout_ms is 1.5"),
    ],
)
def test_wrong_arguments_of_slow_work_are_refused(arguments, words) -> None:
    """The error names the argument, its value and what is expected."""
    bench = PolicyBench(ToolUser, {})
    with pytest.raises(TypeError) as refused:
        bench.host.run_blocking(*arguments)
    assert words in str(refused.value)


def test_an_error_of_then_is_the_policys() -> None:
    """It is reported with the entry's name, and nothing else happens."""
    bench = PolicyBench(ToolUser, {})
    bench.host.run_blocking(lambda: 1, lambda *_: 1 // 0)
    bench.advance(0)
    ((name, hook, error),) = bench.reporter.errors
    assert (name, hook, type(error)) == ("bench", "run_blocking", ZeroDivisionError)


def test_results_of_a_removed_entry_are_dropped() -> None:
    """Its policy has been closed."""
    bench = PolicyBench(ToolUser, {})
    seen: list[object] = []
    bench.host.run_blocking(lambda: 1, lambda result, _: seen.append(result))
    bench.chain.close()
    bench.advance(0)
    assert seen == []
