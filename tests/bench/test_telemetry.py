"""The cost of being seen: every case is really run, and what was meant to be measured has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.telemetry import CASES, NOTHING, QUIET, main, measure, measure_once

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_every_case_runs_beside_its_yardstick(tmp_path: Path) -> None:
    """Each checks by itself that nothing was kept, and that who should be throttled was."""
    costs = measure(tmp_path, rounds=1, requests=320)

    assert [cost.name for cost in costs] == [case.name for case in CASES]
    assert all(cost.own.median > 0 for cost in costs)
    assert [cost.name for cost in costs if cost.added_loop is None] == [NOTHING, QUIET]
    assert [cost.name for cost in costs if cost.added_all is None] == [NOTHING, QUIET]


def test_what_listens_was_told(tmp_path: Path) -> None:
    """Spans and records were written where they should be, and only there."""
    measure(tmp_path, rounds=1, requests=1600)

    written = [bool((tmp_path / str(n) / "spans.jsonl").stat().st_size) for n in (2, 3, 7)]
    assert written == [False, True, True]
    records = [len(list((tmp_path / str(n) / "records").iterdir())) for n in (4, 5, 7)]
    assert all(records)


def test_what_is_paid_once_is_measured(tmp_path: Path) -> None:
    """A page of few connections and users."""
    once = measure_once(tmp_path, connections=10, rows=50)

    assert (once.connections, once.rows) == (10, 50)
    assert min(once.turn_ms, once.collect_ms, once.render_ms) > 0
    assert 10_000 < once.page_bytes < 200_000


def test_it_writes_its_section_and_leaves_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second time it replaces what it wrote."""
    results = tmp_path / "RESULTS.md"
    results.write_text("# What Sluice costs\n")
    short = ["--rounds", "1", "--requests", "320", "--connections", "10"]
    for _ in range(2):
        assert main([*short, "--out", str(tmp_path)]) == 0
        text = results.read_text()
        assert text.startswith("# What Sluice costs\n")
        assert text.count("## What it costs to be seen") == 1
    assert "written: " in capsys.readouterr().out
