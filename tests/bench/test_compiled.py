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


def test_the_section_compares_inside_the_round() -> None:
    """Both builds with each other, the source with itself, and both with HAProxy."""
    runs = {compiled.PURE: 40.0, compiled.AGAIN: 44.0, compiled.COMPILED: 30.0, HAPROXY: 24.0}
    text = compiled.section(
        Samples([sample(*each) for each in runs.items()]), SMALL, {"date": "today"}
    )

    assert "| 100 B, 10 connections | 40.00 | 30.00 | 24.00 | 0.75 | 1.10 | 0.60 | 0.80 |" in text
    assert "| date | today |" in text


def test_without_haproxy_the_builds_are_compared() -> None:
    """Its columns are empty."""
    runs = {compiled.PURE: 40.0, compiled.AGAIN: 44.0, compiled.COMPILED: 30.0}
    text = compiled.section(Samples([sample(*each) for each in runs.items()]), SMALL, {})

    assert "| 100 B, 10 connections | 40.00 | 30.00 | - | 0.75 | 1.10 | - | - |" in text


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
