"""The pipeline's own code as a zip, which Spark ships to the workers of a cluster.

A wheel would not do: `addPyFile` takes it, but workers cannot import from it.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

PACKAGES: Final = ("pipeline", "policies", "wire")
_ENDINGS: Final = (".py", ".json")


def write_code_zip(path: Path) -> None:
    """Write the packages that workers import to `path`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            _add(archive, files(package), package)


def _add(archive: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for each in folder.iterdir():
        inside = f"{name}/{each.name}"
        if each.is_dir():
            _add(archive, each, inside)
        elif each.name.endswith(_ENDINGS):
            archive.writestr(inside, each.read_bytes())
