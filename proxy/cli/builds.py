"""Which build of Sluice runs: the compiled modules of a platform wheel, or the Python source.

Rules:
- A compiled wheel has the source of each compiled module beside it. Python prefers the compiled one.
- With `SLUICE_PURE=1` the entry points take the source instead, before they import any module of these packages. So an
  installed compiled wheel can be debugged, or compared.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

VARIABLE: Final = "SLUICE_PURE"
PACKAGES: Final = frozenset({"wire", "policies", "proxy"})
"""The packages that have compiled modules."""
WITNESS: Final = "proxy.core.session.session"
"""A module that every compiled wheel has compiled."""


class SourceFinder:
    """Finds the source of our modules, where Python would find a compiled module first."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import the source of this module; None if Python finds no compiled one."""
        if name.partition(".")[0] not in PACKAGES:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is None or found.origin is None or _is_source(found.origin):
            return None
        folder = Path(found.origin).parent
        return spec_from_file_location(name, folder / f"{name.rpartition('.')[2]}.py")


def choose() -> None:
    """Have the source imported from now on if SLUICE_PURE asks for it. Call it before other modules are imported."""
    if os.environ.get(VARIABLE, "") not in {"", "0"}:
        sys.meta_path.insert(0, SourceFinder)


def running() -> str:
    """Return `compiled` or `pure`: the build that is imported now, or would be."""
    spec = find_spec(WITNESS)
    return "pure" if spec is None or _is_source(spec.origin or "") else "compiled"


def _is_source(path: str) -> bool:
    return path.endswith(tuple(SOURCE_SUFFIXES))
