"""The compiled build of this checkout, built once."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from bench.harness.compiled_build import build_module, missing, unpack_compiled
from tests.support.house.house import ROOT


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory, *, has_slow_tests: bool) -> Path:
    """Return the folder of the unpacked compiled wheel: the one that is shipped, if slow tests run."""
    if reason := missing():
        pytest.skip(f"the compiled build is not tested: {reason}")
    folder = tmp_path_factory.mktemp("compiled") / "wheel"
    unpack_compiled(folder, optimised=has_slow_tests)
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


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return the C functions as a module, compiled now."""
    if reason := missing():
        pytest.skip(f"the C functions are not tested: {reason}")
    folder = tmp_path_factory.mktemp("twins")
    build_module(Path(__file__).with_name("twins.pyx"), folder)
    spec = importlib.util.spec_from_file_location("twins", folder / f"twins{EXTENSION_SUFFIXES[0]}")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
