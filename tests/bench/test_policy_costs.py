"""The cost of policies: every case does what it measures, and a limit that was not kept is marked."""

from pathlib import Path

import pytest

from bench.harness.figures import Spread
from bench.in_process import Cost
from bench.policy_costs import CASES, main, measure, section


def one(us: float) -> Spread:
    return Spread(us, us, us)


def test_each_case_is_compared_with_the_same_requests_without_a_policy() -> None:
    """A round runs each of them; a session that does something else than forward raises."""
    costs = measure(rounds=1, requests=3200)
    assert [cost.name for cost in costs] == [case.name for case in CASES]
    for case, cost in zip(CASES, costs, strict=True):
        assert cost.own.median > 0
        assert (cost.added is None) is (not case.policies)


def test_a_limit_that_was_not_kept_is_marked() -> None:
    """A case without a limit has none."""
    costs = [Cost(case.name, one(9.0), one(5.5) if case.policies else None) for case in CASES]
    lines = section(costs, {"date": "today"}).splitlines()
    assert "| no policy | 9.00 |  |  |" in lines
    assert "| a policy with `on_request` | 9.00 | 5.50 | **≤ 0.6 NOT MET** |" in lines
    assert "| and `on_complete` | 9.00 | 5.50 |  |" in lines
    assert "| OffsetCommit of 50 topics: `Need.TOPICS` | 9.00 | 5.50 | ≤ 17 |" in lines
    assert "| date | today |" in lines


def test_it_writes_its_section_and_leaves_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second time it replaces what it wrote."""
    results = tmp_path / "RESULTS.md"
    results.write_text("# Benchmark results\n")
    for _ in range(2):
        assert main(["--rounds", "1", "--requests", "1600", "--out", str(tmp_path)]) == 0
        text = results.read_text()
        assert text.startswith("# Benchmark results\n")
        assert text.count("## The cost of policies") == 1
    assert "written: " in capsys.readouterr().out
