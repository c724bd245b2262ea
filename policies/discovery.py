"""Finds policies by their names or their import paths.

- A policy is known by its name in the entry-point group `sluice.policies`, where the built-in policies are registered
  like any other, or by its import path, `module:Class`.
- Only policies that an entry uses are imported. Importing runs a plug-in's code, so it is guarded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.api import Policy
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

GROUP = "sluice.policies"
_IMPORT_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
RAISED = (Exception, SystemExit, GeneratorExit)
"""Exceptions that a policy's code may raise when it is imported and made. A KeyboardInterrupt is a real one then: the
process handles signals only once the proxy serves."""


def available() -> dict[str, type[Policy]]:
    """Return every installed policy by its name.

    A policy that cannot be loaded is left out; an entry that uses it gets the reason as a problem.
    """
    loaded = {name: try_load(point) for name, point in entry_points_by_name().items()}
    return {name: kind for name, kind in loaded.items() if not isinstance(kind, str)}


def entry_points_by_name() -> dict[str, EntryPoint]:
    """Return the entry point of each installed policy by its name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - start-up: only when policies are used

    return {point.name: point for point in entry_points(group=GROUP)}


def maybe_point(use: str, points: Mapping[str, EntryPoint]) -> EntryPoint | None:
    """Return the entry point of this name, or one made from an import path; None if there is neither."""
    if not _IMPORT_PATH.fullmatch(use):
        return points.get(use)
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - as above

    return EntryPoint(use, use, GROUP)


def try_load(point: EntryPoint) -> type[Policy] | str:
    """Return the class, or the reason in words why there is none."""
    try:
        kind: object = point.load()
    except RAISED as error:
        return f"{point.value} cannot be imported: {error_words(error)}"
    if isinstance(kind, type) and issubclass(kind, Policy) and hasattr(kind, "Config"):
        return kind
    return f"{point.value} is {short_repr(kind)}, expected a Policy with a Config"


def error_words(error: BaseException) -> str:
    """Return the exception's type and message; the type alone if its own code cannot say more."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - its `__str__` is a plug-in's code, too
        return type(error).__name__
