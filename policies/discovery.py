"""Finds policies by their names or their import paths.

- A policy is known by its name in the entry-point group `sluice.policies`, where the built-in policies are registered
  like any other, by a file in `policies_path` (`policies.policy_files`), or by its import path, `module:Class`.
- Only policies that an entry uses are imported. Importing runs a plug-in's code, so it is guarded.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from policies.api import Policy
from policies.plugin_sources import SOURCES
from policies.policy_files import PolicyFileError, load_file, policy_files
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

    from policies.policy_files import FileReader

GROUP = "sluice.policies"
_IMPORT_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
RAISED = (Exception, SystemExit, GeneratorExit)
"""Exceptions that a policy's code may raise when it is imported and made. A KeyboardInterrupt is a real one then: the
process handles signals only once the proxy serves."""


class FoundPolicy(NamedTuple):
    """A policy's class and the digests of source files that are followed, by path."""

    kind: type[Policy]
    digests: Mapping[str, str]


class PolicyFinder:
    """Finds the policies of one configuration. The directories are searched after the entry points."""

    def __init__(self, directories: Sequence[str], files: FileReader) -> None:
        self._directories = directories
        self._files = files
        self._points: Mapping[str, EntryPoint] | None = None
        self.files: dict[str, list[str]] = {}
        self.problems: list[Problem] = []
        """Those of the directories."""
        for place, directory in enumerate(directories):
            try:
                for name, paths in policy_files([directory], self._files).items():
                    self.files.setdefault(name, []).extend(paths)
            except PolicyFileError as error:
                self.problems.append(Problem(f"policies_path[{place}]", str(error)))

    def find(self, use: str, path: str) -> FoundPolicy | Problem:
        """Return the policy that an entry uses, or the problem at this key path."""
        name, _, class_name = use.partition(":")
        if self._points is None:
            self._points = entry_points_by_name()  # this reads files
        files, point = self.files.get(name, []), maybe_point(use, self._points)
        is_both = bool(files) and point is not None and not class_name
        if len(files) > 1 or is_both:
            places = [*files, _origin(point)] if point is not None and is_both else files
            return Problem(
                path, f"{describe_value(use)} is in several places: {' and '.join(places)}"
            )
        if files:
            try:
                found = load_file(files[0], class_name, self._files)
            except PolicyFileError as error:
                return Problem(path, str(error))
            return FoundPolicy(found.kind, {found.path: found.digest})
        if point is None:
            known = sorted({*self._points, *self.files})
            words = f"MODULE:CLASS, or an installed policy: {', '.join(known)}"
            return Problem(path, describe_value(use), words, nearest(use, known))
        kind = try_load(point)
        if isinstance(kind, str):
            return Problem(path, kind)
        return FoundPolicy(kind, SOURCES.digests(point.module))


def available() -> dict[str, type[Policy]]:
    """Return every installed policy by its name.

    A policy that cannot be loaded is left out; an entry that uses it gets the reason as a problem.
    """
    loaded = {name: try_load(point) for name, point in entry_points_by_name().items()}
    return {name: kind for name, kind in loaded.items() if not isinstance(kind, str)}


def entry_points_by_name(group: str = GROUP) -> Mapping[str, EntryPoint]:
    """Return the entry point of each installed plug-in of a group by its name.

    They are read again when a package was installed or removed: each reading leaves cycles of `importlib.metadata`.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - start-up: only when policies are used

    seen = (entry_points, *((path, _changed_ns(path)) for path in sys.path))
    known = _known.get(group)
    if known is None or known.seen != seen:
        points = {point.name: point for point in entry_points(group=group)}
        known = _known[group] = _KnownPoints(seen, points)
    return known.points


class _KnownPoints(NamedTuple):
    """The entry points, and the state of the folders that they were read from."""

    seen: tuple[object, ...]
    points: Mapping[str, EntryPoint]


_known: dict[str, _KnownPoints] = {}


def _changed_ns(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def maybe_point(
    use: str, points: Mapping[str, EntryPoint], group: str = GROUP
) -> EntryPoint | None:
    """Return the entry point of this name, or one made from an import path; None if there is neither."""
    if not _IMPORT_PATH.fullmatch(use):
        return points.get(use)
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - as above

    return EntryPoint(use, use, group)


def try_load(point: EntryPoint) -> type[Policy] | str:
    """Return the class, or the reason in words why there is none."""
    try:
        kind = SOURCES.load(point.module, point.load)
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


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"the entry point {point.name}{package}"
