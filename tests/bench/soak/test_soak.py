"""The soak, for a few seconds: the load flows, and a Sluice counts what it holds."""

from pathlib import Path

import pytest

from bench.harness import ROOT
from bench.measure import running_bench
from bench.soak.__main__ import SESSION, soak, target
from bench.soak.report import Held, Soak, goals


def held(at_s: float, size_bytes: int, **types: int) -> Held:
    """Return a count with these objects."""
    return Held(at_s, size_bytes, size_bytes // 100, types)


@pytest.mark.slow
def test_a_short_soak_counts_a_loaded_sluice(tmp_path: Path) -> None:
    """Its clients have no problem, and it holds sessions under load but not at rest."""
    variant, counts = target(ROOT, 0.1, tmp_path)
    with running_bench() as bench:
        found = soak(bench, variant, counts, 6.0, 0.1)

    assert found.problems == []
    assert found.loaded[-1].types[SESSION] > 100
    assert SESSION not in found.after.types
    assert found.loaded[-1].resident_bytes > 20e6


def test_a_leak_misses_the_goals_and_a_flat_soak_meets_them() -> None:
    """A leak of memory and of a type, and a problem of a client, are a goal each."""
    flat = [held(at_s, 50_000_000, Session=10) for at_s in range(100)]
    grown = [held(at_s, 50_000_000 + 100_000 * at_s, Session=at_s) for at_s in range(100)]
    good = Soak(held(0, 49_000_000), flat, held(101, 49_000_000), [])
    bad = Soak(held(0, 50_000_000), grown, held(101, 60_000_000, Session=99), ["slow: reset"])

    assert [goal.met for goal in goals(good)] == [True, True, True]
    assert [goal.met for goal in goals(bad)] == [False, False, False]
