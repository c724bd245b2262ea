"""The command, with children that answer at once."""

import json
from pathlib import Path

import pytest

from bench.harness import BenchError
from bench.pipeline import __main__ as command
from bench.pipeline.__main__ import main


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that would run; those of `recommend` fail."""
    commands: list[list[str]] = []

    def child(module: str, arguments: list[str], told: str = "") -> str:
        if module.endswith("made_log"):
            return json.dumps({"entity": int(arguments[1])})
        timed = {"name": "", "seconds": [2.0], "memory_bytes": 1 << 30}
        if module.endswith("duck"):
            raise BenchError("no DuckDB")
        plan = json.loads(told)
        commands.extend(step["command"] for step in plan["steps"])
        if plan["steps"][0]["command"][0] == "recommend":
            raise BenchError("no such command")
        return json.dumps([timed | {"name": step["name"]} for step in plan["steps"]])

    monkeypatch.setattr(command, "child", child)
    return commands


def test_it_measures_every_job_and_writes_its_section(
    asked: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that fails leaves the others, and is the exit code."""
    (tmp_path / "RESULTS.md").write_text("# Benchmark results\n")
    sizes = ["--rows", "50", "--spans", "30"]
    code = main([*sizes, "--data", str(tmp_path / "data"), "--out", str(tmp_path)])
    text = (tmp_path / "RESULTS.md").read_text()

    assert code == 1
    assert text.startswith("# Benchmark results\n")
    assert "<!-- pipeline -->\n## The data pipeline" in text
    assert "`recommend` was not measured: no such command" in text
    assert "`usage in DuckDB` was not measured: no DuckDB" in text
    assert "| `usage` | 0.0 M rows | 2.0 |" in text
    assert {each[0] for each in asked} == {"ingest", "usage", "recommend", "whatif", "traces"}
    assert [each[1].rpartition("-")[2] for each in asked if each[0] == "usage"] == [
        *("1", "1", "4"),
        *("1", "1"),
    ]
    assert "recommend: no such command" in capsys.readouterr().out
