"""The cost of being seen: every case is really run, and what was meant to be measured has happened."""

from pathlib import Path

import pytest

from bench import telemetry as module
from bench.telemetry import CASES, main, measure


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans are gathered for a moment only."""
    monkeypatch.setattr(module, "DELAY_MS", 10)


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


def test_the_command_measures_and_writes(tmp_path: Path) -> None:
    """Its section is in RESULTS.md."""
    short = ["--rounds", "1", "--requests", "320", "--connections", "10"]

    assert main([*short, "--out", str(tmp_path)]) == 0

    assert "## The cost of telemetry" in (tmp_path / "RESULTS.md").read_text()
