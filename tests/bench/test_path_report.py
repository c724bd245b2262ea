"""The section of the quota path: both builds, their goals, and what is missing."""

import pytest

from bench.harness import BenchError
from bench.path import CASES, NOTHING, THROTTLED
from bench.path_report import COMPILED, PURE, Found, goals, run_build, section


def medians(factor: float) -> dict[str, tuple[float, float | None]]:
    """Return made-up figures of one process."""
    return {
        case.name: (factor * (2 + n), factor * n if case.quotas else None)
        for n, case in enumerate(CASES)
    }


def test_figures_are_medians_over_the_rounds_and_ratios_are_taken_inside_them() -> None:
    """A slow round moves no ratio."""
    found = Found()
    found.rounds = [{PURE: medians(n), COMPILED: medians(n / 4)} for n in (1.0, 1.2, 9.0)]
    place = [case.name for case in CASES].index(THROTTLED)

    assert found.own(PURE, NOTHING.name).text(1) == "2.4 (2.0 to 18.0)"
    assert found.added(PURE, THROTTLED).median == pytest.approx(1.2 * place)
    assert found.added(PURE, NOTHING.name) is None
    assert found.ratio(THROTTLED).text(2) == "0.25"


def test_a_goal_says_whether_it_is_met() -> None:
    """One that is missed says so, in the table, too."""
    found = Found()
    found.rounds = [{PURE: medians(1.0), COMPILED: medians(0.05)}]
    met = {goal.what: goal.met for goal in goals(found)}

    assert met == dict.fromkeys(met, True) | {f"a quota adds, pure: {THROTTLED}": False}
    text = section(found, {"date": "today"})
    assert "**NOT MET**" in text
    assert all(f"| {case.name} |" in text for case in CASES)


def test_without_a_compiled_build_its_goals_are_not_measured() -> None:
    """They are never met by default."""
    found = Found()
    found.rounds = [{PURE: medians(1.0)}]

    assert {goal.met for goal in goals(found)[:4]} == {None}
    assert "not measured" in section(found, {})


def test_a_process_of_another_build_is_an_error() -> None:
    """A folder without compiled modules must not pass for the compiled build."""
    with pytest.raises(BenchError, match="ran the pure build, expected compiled"):
        run_build(COMPILED, None, rounds=1)
