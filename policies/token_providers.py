"""Finds the plug-ins that get tokens (`policies.tokens`), and makes them.

- A provider is known by its name in the entry-point group `sluice.tokens`, where ours is registered like any other, or
  by its import path, `module:Class`. Importing and making it runs a plug-in's code, so both are guarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import PolicyConfigError
from policies.discovery import RAISED, entry_points_by_name, error_words, maybe_point
from policies.tokens import TokenProvider
from policies.type_names import describe_value, nearest
from policies.validation import Problem, join_path, try_convert
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "sluice.tokens"


def make_provider(
    use: str, options: Mapping[str, object], path: str
) -> TokenProvider | list[Problem]:
    """Return the provider of this name with these settings, or the problems; `path` is that of its section."""
    points = entry_points_by_name(GROUP)
    point = maybe_point(use, points, GROUP)
    name_path = join_path(path, "token_provider")
    if point is None:
        words = f"MODULE:CLASS, or an installed provider: {', '.join(sorted(points)) or 'none'}"
        return [Problem(name_path, describe_value(use), words, nearest(use, points))]
    try:
        kind = point.load()
    except RAISED as error:
        words = f"{point.value} cannot be imported: {error_words(error)}"
        return [Problem(name_path, words)]
    if not (isinstance(kind, type) and issubclass(kind, TokenProvider)):
        words = f"{point.value} is {short_repr(kind)}, expected a TokenProvider"
        return [Problem(name_path, words)]
    options_path = join_path(path, "token_options")
    config, problems = try_convert(kind.Config, options, options_path)
    if problems:
        return problems
    try:
        return kind(config)
    except PolicyConfigError as error:
        return [Problem(join_path(options_path, error.path), error.message)]
    except RAISED as error:
        return [Problem(name_path, f"{point.value} cannot be made: {error_words(error)}")]
