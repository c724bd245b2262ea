"""The timing wheel, the purgatory and the benchmark's loop, compiled by Cython into bench/bin/compiled.

The wheel and the purgatory are compiled as in the compiled build of Sluice, with its type files, directives and flags;
the loop has a type file here. The sources are copied unchanged, and rebuilt when one has changed. The folder has no
other module of the project; a process that has it first on its path runs the compiled modules.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from bench.build import BIN
from bench.harness import ROOT, BenchError
from bench.harness.compiled_build import missing

FOLDER = BIN / "compiled"
PACKAGES = ("proxy/__init__.py", "proxy/core/__init__.py", "proxy/core/purgatory/__init__.py")
MODULES = (
    "proxy/core/purgatory/timing_wheel.py",
    "proxy/core/purgatory/timers.py",
    "proxy/core/purgatory/purgatory.py",
    "bench/purgatory/play.py",
)
TYPES = tuple(name.replace(".py", ".pxd") for name in MODULES)
BACKEND = ".build/build_backend.py"
BUILD = """\
import importlib.util
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

spec = importlib.util.spec_from_file_location("backend", sys.argv[1])
backend = importlib.util.module_from_spec(spec)
spec.loader.exec_module(backend)
modules = [
    Extension(path[:-3].replace("/", "."), [path], extra_compile_args=list(backend.FLAGS))
    for path in sys.argv[2:]
]
made = cythonize(modules, build_dir="build", compiler_directives=backend.DIRECTIVES, quiet=True)
setup(name="compiled", ext_modules=made, script_args=["-q", "build_ext", "--inplace"])
"""


def compiled(folder: Path = FOLDER) -> Path:
    """Build the modules if needed; return their folder.

    Raises:
        BenchError: Cython or a C compiler is missing, or a module does not compile.
    """
    if reason := missing():
        raise BenchError(reason)
    if not _is_fresh(folder):
        shutil.rmtree(folder, ignore_errors=True)
        for name in (*PACKAGES, *MODULES, *TYPES):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        command = [sys.executable, "-c", BUILD, str(ROOT / BACKEND), *MODULES]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or not _is_fresh(folder):
            raise BenchError(f"Cython failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        shutil.rmtree(folder / "build")
    return folder


def _is_fresh(folder: Path) -> bool:
    """Return whether each module was compiled from its current source and types."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    copied = (*MODULES, *TYPES)
    return all((folder / name).with_suffix(suffix).is_file() for name in MODULES) and all(
        (folder / name).is_file() and (folder / name).read_bytes() == (ROOT / name).read_bytes()
        for name in copied
    )
