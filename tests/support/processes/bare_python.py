"""A Python that has the libraries of this environment, but not this project: that must come to it by other ways."""

import sys
import sysconfig
from pathlib import Path
from typing import Final

_SCRIPT: Final = '#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec "{python}" -S "$@"\n'


def bare_python(folder: Path) -> Path:
    """Write the program into `folder` and return its path. Without `site`, editable installs are not seen."""
    program = folder / "bare-python"
    libraries = sysconfig.get_paths()["purelib"]
    program.write_text(_SCRIPT.format(libraries=libraries, python=sys.executable))
    program.chmod(0o755)
    return program
