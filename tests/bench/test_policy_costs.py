"""The cost of policies: every case does what it measures."""

from collections.abc import Sequence

import pytest

from bench.policy_costs import CASES, RULE_CASES, Case, measure, section


@pytest.mark.parametrize("cases", [CASES, RULE_CASES])
def test_each_case_is_compared_with_the_same_requests_without_a_policy(
    cases: Sequence[Case],
) -> None:
    """A round runs each of them; a session that does something else than forward raises."""
    costs = measure(rounds=1, requests=3200, cases=cases)
    assert section(costs, {"date": "today"}, cases).startswith("## The cost of policies\n")
    assert [cost.name for cost in costs] == [case.name for case in cases]
    for case, cost in zip(cases, costs, strict=True):
        assert cost.own.median > 0
        assert (cost.added is None) is (not case.policies)
