"""The compiled build of this checkout, in a folder that PYTHONPATH can name."""

import compileall
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from bench.harness import ROOT, BenchError


def missing() -> str:
    """Return in words why nothing can be compiled here: a tool is not installed. "" if nothing is missing."""
    if importlib.util.find_spec("Cython") is None:
        return "Cython is not installed (requirements/build.txt)"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python's headers are not installed"
    return ""


def build_compiled(folder: Path, *, optimised: bool = True) -> Path:
    """Build the compiled wheel into `folder`; return its path. Only changed modules are compiled again.

    Raises:
        BenchError: it cannot be built.
    """
    command = [*(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check")]
    command += ["--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    environ = {**os.environ, "SLUICE_COMPILE": "1" if optimised else "unoptimised"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the compiled wheel cannot be built: {done.stderr.strip()[-2000:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack_compiled(folder: Path, *, optimised: bool = True) -> None:
    """Build the compiled wheel and unpack it into `folder`.

    Raises:
        BenchError: it cannot be built.
    """
    wheel = build_compiled(folder.with_name(f"{folder.name}-wheel"), optimised=optimised)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    # As pip does: a start that compiles modules takes more time and memory.
    compileall.compile_dir(folder, quiet=1)
