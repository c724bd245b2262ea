"""The command."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.harness import BenchError
from bench.memory import __main__ as command
from bench.memory.__main__ import CASES, main
from bench.memory.figures import Case, max_goal


class NoKafka:
    """Has only the attributes that the command itself uses."""

    restarts = 0

    def restart(self) -> None:
        NoKafka.restarts += 1


@pytest.fixture
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the broker by one that cases neither get nor need."""

    @contextmanager
    def nothing(folder: Path):
        yield NoKafka()

    monkeypatch.setattr(NoKafka, "restarts", 0)
    monkeypatch.setattr(command, "running_kafka", nothing)


def test_some_cases_alone_are_measured_and_written(
    without_kafka: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They run in their order, the rest of the file stays, and a missed goal gives exit code 1."""
    asked = []

    def fake(name: str, wait_s: float):
        def measure(kafka: NoKafka, folder: Path) -> Case:
            asked.append(name)
            return Case(name, f"{name}. Title", "Law.", goals=[max_goal("wait", "s", wait_s, 2)])

        return measure

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


def test_a_case_that_breaks_does_not_break_the_others(
    without_kafka: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The reason is written, the exit code is 1, and the next case gets a restarted broker."""

    def fall(kafka: NoKafka, folder: Path) -> Case:
        raise BenchError("it fell")

    monkeypatch.setitem(CASES, "a", fall)
    monkeypatch.setitem(CASES, "b", lambda *_: Case("b", "b. Title", "Law."))
    assert main(["--only", "ab", "--out", str(tmp_path)]) == 1
    text = (tmp_path / "RESULTS.md").read_text()
    assert "it fell" in text
    assert NoKafka.restarts == 1
    assert "### b. Title" in text
    assert "FAILED" in capsys.readouterr().out
