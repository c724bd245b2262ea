"""The cost of policies on the request path: every case is really run, and compared with its own yardstick."""

from bench.path import CASES, NOTHING, THROTTLED, measure


def test_every_case_runs_and_is_compared_with_the_one_without_policy() -> None:
    """Each case checks by itself that what was meant to be measured has happened."""
    costs = measure(rounds=1, requests=320)
    assert [cost.name for cost in costs] == [case.name for case in CASES]
    assert all(cost.own.median > 0 for cost in costs)
    without = [cost.name for cost in costs if cost.added is None]
    assert without == [case.name for case in CASES if not case.quotas]
    assert NOTHING.name in without
    assert THROTTLED not in without
