"""The compiled modules."""

import os
import subprocess
import sys
from array import array

import pytest

from bench.harness.compiled_build import missing
from bench.purgatory.compiled import FOLDER, MODULES, ROOT, compiled
from bench.purgatory.workload import Workload

NAMES = [name.removesuffix(".py").replace("/", ".") for name in MODULES]
SAY = f"""
import importlib
for name in {NAMES}:
    print(importlib.import_module(name).__file__)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason="nothing can be compiled here")
def test_compiled_modules_are_built_once_and_run(tmp_path):
    """A process with the folder before the project on its path runs them, and the rest from the project."""
    folder = compiled()
    assert folder == FOLDER
    built = {path: path.stat().st_mtime_ns for path in folder.rglob("*.so")}
    assert len(built) == len(MODULES)
    compiled()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.so")} == built
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def say(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert {file.endswith(".so") for file in say("-c", SAY).split()} == {True}
    Workload(array("q", [0, 3]), array("i", [0, 1, 2])).save(tmp_path / "all")
    assert '"requests": 3' in say("-m", "bench.purgatory.run", "wheel", str(tmp_path / "all"))
