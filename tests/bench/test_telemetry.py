"""The cost of being seen: every case is really run, and what was meant to be measured has happened."""

from pathlib import Path

import pytest

from bench import telemetry as module
from bench.telemetry import ALONE, CASES, NOTHING, QUIET, main, measure, measure_once

YARDSTICKS = [NOTHING, ALONE, QUIET]


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans are gathered for a moment only."""
    monkeypatch.setattr(module, "DELAY_MS", 10)


def test_every_case_runs_beside_its_yardstick(tmp_path: Path) -> None:
    """Each checks by itself that nothing was kept, and that the right requests were throttled."""
    costs = measure(tmp_path, rounds=1, requests=320)

    assert [cost.name for cost in costs] == [case.name for case in CASES]
    assert all(cost.own.median > 0 for cost in costs)
    assert [cost.name for cost in costs if cost.added is None] == YARDSTICKS
    assert [cost.name for cost in costs if cost.added_in_all is None] == YARDSTICKS


def test_what_listens_was_told(tmp_path: Path) -> None:
    """Spans and rows of each family were written by those cases that want them, and by no other."""
    measure(tmp_path, rounds=1, requests=1600)

    for place, case in enumerate(CASES):
        folder = tmp_path / str(place)
        spans, usage_log = folder / "spans.jsonl", folder / "usage-log"
        told = bool(case.sample_every) or (case.throttled and case.parts is not None)
        assert (spans.exists() and spans.stat().st_size > 0) == told, case.name
        written = {each.name for each in usage_log.iterdir()} if usage_log.exists() else set()
        assert written == set(case.families), case.name


def test_each_part_has_a_row_of_its_own() -> None:
    """No listeners, metrics, usage log, traces, all, and what is off by default."""
    rows = {(case.parts, case.families) for case in CASES if case.batch == module.BATCH}

    assert (None, ()) in rows
    assert (("metrics",), ()) in rows
    assert (("traces",), ()) in rows
    assert ((), module.FAMILIES) in rows
    assert (module.PARTS, module.FAMILIES) in rows
    assert ((), ("topic",)) in rows


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
    results.write_text("# Benchmark results\n")
    short = ["--rounds", "1", "--requests", "320", "--connections", "10"]
    for _ in range(2):
        assert main([*short, "--out", str(tmp_path)]) == 0
        text = results.read_text()
        assert text.startswith("# Benchmark results\n")
        assert text.count("## The cost of telemetry") == 1
    said = capsys.readouterr().out
    assert "written: " in said
    assert "| added in all |" in said
