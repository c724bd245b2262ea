"""Both builds of this checkout, as variants."""

from pathlib import Path

import pytest

from bench.builds import both_builds, compiled
from bench.harness import BenchError
from bench.variants import SLUICE, SLUICE_QUOTA, Place


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `sluice` beside the Python that runs; its build is the name of the folder of its modules."""
    made = tmp_path / "sluice"
    made.write_text('#!/bin/sh\necho "sluice 0.1.0 (Python 3, ${PYTHONPATH##*/})"\n')
    made.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    return made


def test_without_a_wheel_there_is_the_source_alone(program: Path) -> None:
    """With and without a quota."""
    assert [each.name for each in both_builds(None)] == [SLUICE, SLUICE_QUOTA]
    program.unlink()
    assert both_builds(None) == []


def test_the_compiled_build_runs_with_the_modules_of_its_folder(
    program: Path, tmp_path: Path
) -> None:
    """Its version must say that it is compiled, or nothing is measured."""
    found = compiled(program, tmp_path / "compiled")

    assert found.command is not None
    command = found.command(Place(1, 2, tmp_path))
    assert command[1:4] == [f"PYTHONPATH={tmp_path}/compiled", str(program), "run"]
    with pytest.raises(BenchError, match="not compiled"):
        compiled(program, tmp_path / "wheel")
