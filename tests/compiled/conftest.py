"""The compiled build of this checkout, built once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.compiled_build import missing, unpack_compiled
from tests.support.house import ROOT


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the unpacked compiled wheel."""
    if reason := missing():
        pytest.skip(f"the compiled build is not tested: {reason}")
    folder = tmp_path_factory.mktemp("compiled") / "wheel"
    unpack_compiled(folder)
    return folder


@pytest.fixture
def run_compiled(compiled: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return what runs a module of this project in a Python that imports the compiled build."""

    def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", *arguments]
        paths = {"PYTHONPATH": f"{compiled}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command,
            env={**os.environ, **paths, **environ},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
