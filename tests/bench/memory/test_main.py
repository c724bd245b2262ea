"""The command."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.memory import __main__ as command
from bench.memory.__main__ import CASES, main
from bench.memory.figures import Case, max_goal


def test_some_cases_alone_are_measured_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They run in their order, the rest of the file stays, and a missed goal gives exit code 1."""
    asked = []

    def fake(name: str, wait_s: float):
        def measure(kafka: None, folder: Path) -> Case:
            asked.append(name)
            return Case(name, f"{name}. Title", "Law.", goals=[max_goal("wait", "s", wait_s, 2)])

        return measure

    monkeypatch.setattr(command, "running_kafka", nullcontext)
    (tmp_path / "RESULTS.md").write_text("# Costs\n")
    for name, wait_s in (("a", 1), ("b", 1), ("c", 3)):
        monkeypatch.setitem(CASES, name, fake(name, wait_s))
    assert main(["--only", "b,a", "--out", str(tmp_path)]) == 0
    assert main(["--only", "c", "--out", str(tmp_path)]) == 1
    assert asked == ["a", "b", "c"]
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.startswith("# Costs\n")
    assert all(f"### {name}. Title" in text for name in "abc")
    assert "NOT MET      wait: 3.00 s, must 2" in capsys.readouterr().out
