"""The tools of a policy: what they refuse, and when they work."""

import pytest

from policies.entry_tools import MAX_BLOCKING_TIMEOUT_MS
from policies.policy_log import MAX_EARLY
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


def test_a_tool_is_used_in_its_time() -> None:
    """A policy that makes metrics per request would grow without a bound; in `__init__` there is no proxy yet."""
    bench = PolicyBench(ToolUser, {})
    with pytest.raises(RuntimeError, match="counter is called after __init__"):
        bench.host.counter("late", "Help.")
    with pytest.raises(RuntimeError, match="histogram is called after __init__"):
        bench.host.histogram("late", "Help.", [1])

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


def test_an_error_of_then_is_the_policys_and_results_of_a_removed_entry_are_dropped() -> None:
    """The error is reported with the entry's name, and nothing else happens."""
    bench = PolicyBench(ToolUser, {})
    bench.host.run_blocking(lambda: 1, lambda *_: 1 // 0)
    bench.advance(0)
    ((name, hook, error),) = bench.reporter.errors
    assert (name, hook, type(error)) == ("bench", "run_blocking", ZeroDivisionError)

    bench = PolicyBench(ToolUser, {})
    seen: list[object] = []
    bench.host.run_blocking(lambda: 1, lambda result, _: seen.append(result))
    bench.chain.close()
    bench.advance(0)
    assert seen == []


def test_the_log_of_a_policy_keeps_few_lines_before_there_is_a_proxy_and_never_fails_it() -> None:
    """A constructor that logs in a loop keeps MAX_EARLY lines; an exception of the writer is not the policy's."""
    host, seen = BenchHost(), []
    for number in range(MAX_EARLY + 100):
        host.log.debug("line", number=number)
    host.log.connect(lambda *line: seen.append(line))
    assert len(seen) == MAX_EARLY

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    host = BenchHost()
    host.log.connect(fail)
    host.log.error("line")
