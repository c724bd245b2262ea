"""Slow work in a bench is done when its clock says so, and the policy sees all that a proxy may give it."""

from policies.testing import PolicyBench
from policies.testing.bench_host import BenchAlarm
from tests.support.plugins.tool_user import ToolUser


def test_the_result_never_comes_inside_the_call() -> None:
    """Neither a fast result nor a refusal: the request that waits for it must be held first."""
    bench = PolicyBench(ToolUser, {})
    seen: list[object] = []
    for full in (False, True):
        bench.threads.is_full = full
        bench.host.run_blocking(lambda: "done", lambda result, _: seen.append(result))
        assert len(seen) == full
        bench.advance(0)
    assert seen[0] == "done"
    assert "no thread is free" in str(seen[1])


def test_work_that_takes_too_long_is_not_made() -> None:
    """At its deadline there is a TimeoutError."""
    bench = PolicyBench(ToolUser, {})
    bench.threads.takes_ms = 51
    seen: list[tuple[object, int]] = []
    made: list[bool] = []
    bench.host.run_blocking(lambda: made.append(True), lambda *result: seen.append(result), 50)
    bench.advance(1_000)
    ((error, now_ms),) = seen
    assert (str(error), now_ms, made) == ("no result after 50 ms", 50, [])


def test_a_call_that_is_given_up_has_no_result() -> None:
    """And its work is not done."""
    bench = PolicyBench(ToolUser, {})
    seen: list[object] = []
    give_up = bench.host.run_blocking(lambda: seen.append("done"), lambda *_: seen.append("told"))
    give_up()
    bench.advance(100)
    assert seen == []


def test_it_rings_once_and_not_when_it_is_given_up():
    """Either way it is over then."""
    rang: list[int] = []
    alarm, given_up = BenchAlarm(rang.append), BenchAlarm(rang.append)
    given_up.cancel()
    for each in (alarm, alarm, given_up):
        each.ring(7)
    assert rang == [7]
    assert alarm.cancelled
    assert given_up.cancelled
