"""Build the benchmark's C programs into bench/bin.

A program is rebuilt when its source or a header is newer. Compiler warnings are errors.
"""

import os
import shutil
import subprocess
from pathlib import Path

from bench.harness import FOLDER, BenchError

SOURCES = FOLDER / "c"
BIN = FOLDER / "bin"
PROGRAMS = ("broker", "load", "relay")
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")


def maybe_compiler() -> str | None:
    """Return the C compiler: $CC, else the first of cc, gcc, clang that is installed; None if there is none."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    return next((path for name in names if (path := shutil.which(name))), None)


def build(into: Path = BIN) -> dict[str, Path]:
    """Compile what has changed; return program name -> path of the executable.

    Raises:
        BenchError: there is no compiler, or a program does not compile.
    """
    headers = max(path.stat().st_mtime for path in SOURCES.glob("*.h"))
    built = {}
    for name in PROGRAMS:
        source, target = SOURCES / f"{name}.c", into / name
        newest = max(headers, source.stat().st_mtime)
        if not target.exists() or target.stat().st_mtime < newest:
            _compile(source, target)
        built[name] = target
    return built


def _compile(source: Path, target: Path) -> None:
    compiler = maybe_compiler()
    if compiler is None:
        raise BenchError("no C compiler: install gcc or clang, or set CC")
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [compiler, *FLAGS, "-o", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{source.name} does not compile:\n{done.stderr}")
