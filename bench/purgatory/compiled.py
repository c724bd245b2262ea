"""The timing wheel, the purgatory and the benchmark's loop, compiled by mypyc into bench/bin/compiled.

The sources are copied unchanged, and rebuilt when one has changed. The folder has no other module of the project; a
process that has it first on its path runs the compiled modules.
"""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from bench.build import BIN, maybe_compiler
from bench.harness import ROOT, BenchError

FOLDER = BIN / "compiled"
PACKAGES = ("proxy/__init__.py", "proxy/core/__init__.py")
MODULES = (
    "proxy/core/purgatory/timing_wheel.py",
    "proxy/core/purgatory/timers.py",
    "proxy/core/purgatory/purgatory.py",
    "bench/purgatory/play.py",
)


def compiled(folder: Path = FOLDER) -> Path:
    """Build the modules if needed; return their folder.

    Raises:
        BenchError: mypyc or a C compiler is missing, or mypyc failed.
    """
    if importlib.util.find_spec("mypyc") is None:
        raise BenchError("mypyc is not installed (requirements/bench.txt)")
    if maybe_compiler() is None:
        raise BenchError("no C compiler: install gcc or clang, or set CC")
    if not _is_fresh(folder):
        shutil.rmtree(folder, ignore_errors=True)
        for name in (*PACKAGES, *MODULES):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        command = [sys.executable, "-m", "mypyc", "--strict", "--explicit-package-bases", *MODULES]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or not _is_fresh(folder):
            raise BenchError(f"mypyc failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        shutil.rmtree(folder / "build")
    return folder


def _is_fresh(folder: Path) -> bool:
    """Return whether each module was compiled from its current source."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return all(
        (folder / name).with_suffix(suffix).is_file()
        and (folder / name).read_bytes() == (ROOT / name).read_bytes()
        for name in MODULES
    )
