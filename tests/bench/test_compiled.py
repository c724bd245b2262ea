"""The bench of the compiled build: its section, and its commands."""

from pathlib import Path

import pytest

from bench import compiled
from bench.figures import Sample, Samples
from bench.harness import BenchError
from bench.shapes import choose
from bench.variants import HAPROXY, Place

SMALL = choose("small-10")


def sample(name: str, cpu_us: float) -> Sample:
    return Sample("small-10", name, 0, 1000, 1.0, 2e6, cpu_us, 100, 200)


RUNS = {
    compiled.PURE: 40.0,
    compiled.AGAIN: 44.0,
    compiled.COMPILED: 30.0,
    compiled.QUOTA: 32.0,
    HAPROXY: 24.0,
}


def test_the_section_compares_inside_the_round() -> None:
    """Both builds with each other, the source with itself, and all with HAProxy."""
    text = compiled.section(
        Samples([sample(*each) for each in RUNS.items()]), SMALL, {"date": "today"}
    )

    row = "| 100 B, 10 connections | 40.00 | 30.00 | 32.00 | 24.00 | 0.75 | 1.10 | 0.60 | 0.80 | 0.75 |"
    assert row in text
    assert "| date | today |" in text


def test_without_haproxy_the_builds_are_compared() -> None:
    """Its columns are empty."""
    runs = {compiled.PURE: 40.0, compiled.AGAIN: 44.0, compiled.COMPILED: 30.0}
    text = compiled.section(Samples([sample(*each) for each in runs.items()]), SMALL, {})

    assert "| 100 B, 10 connections | 40.00 | 30.00 | - | - | 0.75 | 1.10 | - | - | - |" in text
    assert [goal.met for goal in compiled.goals(Samples([]), SMALL)] == [None] * 3


def test_the_goals_are_efficiencies_of_the_shapes_that_were_chosen() -> None:
    """Of the compiled build, with and without a quota, and of the source."""
    runs = RUNS | {compiled.COMPILED: 25.0}
    found = compiled.goals(Samples([sample(*each) for each in runs.items()]), SMALL)

    assert [(goal.figure, goal.must, goal.met) for goal in found] == [
        ("0.96", 0.90, True),
        ("0.75", 0.85, False),
        ("0.60", 0.70, False),
    ]
    assert len(compiled.goals(Samples([]), choose(compiled.SHAPES))) == 15


def test_peers_have_a_table_and_kroxylicious_has_goals() -> None:
    """Efficiency is the CPU of the peer divided by that of each build; a peer that failed has dashes."""
    runs = RUNS | {"kroxylicious-0.12": 45.0, "other": 60.0}
    peers = ["kroxylicious-0.12", "other", "failed"]
    samples = Samples([sample(*each) for each in runs.items()])
    text = compiled.section(samples, SMALL, {}, peers)

    assert "| 100 B, 10 connections | kroxylicious-0.12 | 45.00 | 1.12 | 1.50 |" in text
    assert "| 100 B, 10 connections | other | 60.00 | 1.50 | 2.00 |" in text
    assert "| 100 B, 10 connections | failed | - | - | - |" in text
    (goal,) = compiled.goals(samples, SMALL, peers)[3:]
    assert (goal.what, goal.figure, goal.must, goal.aim, goal.met) == (
        "compiled against kroxylicious-0.12, 100 B, 10 connections",
        *("1.50", 1.2, 1.8, True),
    )


def test_with_a_quota_the_modules_are_those_of_the_folder_too(tmp_path: Path) -> None:
    """Only the configuration differs."""
    program = tmp_path / "sluice"
    program.write_text('#!/bin/sh\necho "sluice 0.1.0 (Python 3, compiled)"\n')
    program.chmod(0o755)
    found = {each.name: each for each in compiled.variants(program, tmp_path)}
    command = found[compiled.QUOTA].command
    assert command is not None

    words = command(Place(1, 2, tmp_path))
    assert words[1:5] == [f"PYTHONPATH={tmp_path}", str(program), "run", "--config"]
    assert "request_rate" in Path(words[5]).read_text()


def test_the_compiled_build_runs_with_the_modules_of_its_folder(tmp_path: Path) -> None:
    """Its version must say that it is compiled, or nothing is measured."""
    program = tmp_path / "sluice"
    program.write_text('#!/bin/sh\necho "sluice 0.1.0 (Python 3, ${PYTHONPATH##*/})"\n')
    program.chmod(0o755)
    found = compiled.compiled(program, tmp_path / "compiled")

    assert found.command is not None
    command = found.command(Place(1, 2, tmp_path))
    assert command[1:4] == [f"PYTHONPATH={tmp_path}/compiled", str(program), "run"]
    with pytest.raises(BenchError, match="not compiled"):
        compiled.compiled(program, tmp_path / "wheel")
