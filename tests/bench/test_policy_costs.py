"""The cost of policies: every case does what it measures."""

from bench.policy_costs import CASES, measure, section


def test_each_case_is_compared_with_the_same_requests_without_a_policy() -> None:
    """A round runs each of them; a session that does something else than forward raises."""
    costs = measure(rounds=1, requests=3200)
    assert section(costs, {"date": "today"}).startswith("## The cost of policies\n")
    assert [cost.name for cost in costs] == [case.name for case in CASES]
    for case, cost in zip(CASES, costs, strict=True):
        assert cost.own.median > 0
        assert (cost.added is None) is (not case.policies)
