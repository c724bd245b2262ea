"""The compiled build of this checkout, in a folder that PYTHONPATH can name.

As a program it prepares `make demo`, which runs the compiled build where there is one: `compiled_build FOLDER`.
"""

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

_BUILD = """\
import sys
from Cython.Build import cythonize
from setuptools import Extension, setup
name, source, folder = sys.argv[1:]
found = cythonize([Extension(name, [source])], build_dir=folder, quiet=True, language_level=3)
setup(name=name, ext_modules=found, script_args=["-q", "build_ext", "-b", folder, "-t", folder])
"""


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


def build_module(source: Path, folder: Path) -> None:
    """Compile one Cython module of the checkout into `folder`.

    Raises:
        BenchError: it cannot be compiled.
    """
    command = [
        sys.executable,
        "-c",
        _BUILD,
        source.stem,
        str(source.relative_to(ROOT)),
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{source.name} cannot be compiled: {done.stderr.strip()[-2000:]}")


def prepare(folder: Path) -> None:
    """Unpack the compiled build into `folder` and put a stamp there; if that fails, say so and leave no folder."""
    for left in (folder, folder.with_name(f"{folder.name}-wheel")):
        shutil.rmtree(left, ignore_errors=True)
    reason = missing() if sys.platform == "linux" else "it was not tried on this system"
    if not reason:
        print(
            "Compiling the hot modules of Sluice: two minutes on two cores, the first time.",
            flush=True,
        )
        try:
            unpack_compiled(folder)
        except (BenchError, OSError) as error:  # a full disk, too
            reason = str(error)
        else:
            reason = _fault(folder)
    if reason:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"Sluice is not compiled: {reason}. The source runs, which takes more CPU.")
        return
    (folder / ".stamp").touch()


def _fault(folder: Path) -> str:
    """Return why the build in `folder` does not run; "" if it does."""
    environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "sluice", "version"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return "" if "compiled" in done.stdout else f"it does not start: {done.stderr[-2000:]}"


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
