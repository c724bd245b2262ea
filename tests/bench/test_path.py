"""The quota path: every case is really run and compared with its own yardstick, and the builds with each other."""

import pytest

from bench.harness import BenchError
from bench.path import CASES, COMPILED, NOTHING, PURE, THROTTLED, Found, measure, run_build


def test_every_case_runs_and_is_compared_with_the_one_without_policy() -> None:
    """Each case checks by itself that what was meant to be measured has happened."""
    costs = measure(rounds=1, requests=320)
    assert [cost.name for cost in costs] == [case.name for case in CASES]
    assert all(cost.own.median > 0 for cost in costs)
    without = [cost.name for cost in costs if cost.added is None]
    assert without == [case.name for case in CASES if not case.quotas]
    assert NOTHING.name in without
    assert THROTTLED not in without


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


def test_a_process_of_another_build_is_an_error() -> None:
    """A folder without compiled modules must not pass for the compiled build."""
    with pytest.raises(BenchError, match="ran the pure build, expected compiled"):
        run_build(COMPILED, None, rounds=1)
