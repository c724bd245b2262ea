"""The pipeline's own code as a zip, which Spark ships to the workers of a cluster.

Rules:
- A wheel would not do: `addPyFile` takes it, but workers cannot import from it.
- All files of the packages travel, except what a build leaves beside the source: a new resource cannot be forgotten.
- So code reads a resource by `importlib.resources`, never by a path beside `__file__`.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

PACKAGES: Final = ("pipeline", "policies", "wire")
_OF_BUILDS: Final = (".pyc", ".so", ".c", ".pxd")


def write_code_zip(path: Path) -> None:
    """Write to `path` the packages that the commands and the workers import, with their resources."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            _add(archive, files(package), package)


def _add(archive: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for each in folder.iterdir():
        inside = f"{name}/{each.name}"
        if each.is_dir():
            _add(archive, each, inside)
        elif not each.name.endswith(_OF_BUILDS):
            archive.writestr(inside, each.read_bytes())
