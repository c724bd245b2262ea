"""Plug-ins that get tokens for OAUTHBEARER, by which Sluice authenticates to brokers.

    upstream:
      sasl: {mechanism: OAUTHBEARER, token_provider: aws-msk-iam, token_options: {region: eu-west-1}}

- A provider is known by its name in the entry-point group `sluice.tokens`, where ours is registered like any other, or
  by its import path, `module:Class`. Importing and making it runs a plug-in's code, so both are guarded.
- It is made once at the start, in the main thread: no network there. `token` is called in a thread, and may block.
- Its settings are no place for secrets: they name a file or a variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import msgspec

from policies.api import PolicyConfigError
from policies.discovery import RAISED, entry_points_by_name, error_words, maybe_point
from policies.type_names import describe_value, nearest
from policies.validation import Problem, join_path, try_convert
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "sluice.tokens"


class Token(NamedTuple):
    """A token, and how many seconds it holds from now on."""

    token: str
    lifetime_s: float

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Token(..., {self.lifetime_s!r})"


class NoTokenOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A provider without settings."""


class TokenProvider:
    """Gets tokens. `config` is a `Config`, made of the `token_options`."""

    Config: ClassVar[type] = NoTokenOptions
    """A frozen struct of msgspec: the settings."""

    def __init__(self, config: object) -> None:
        self.config = config

    def token(self) -> Token:
        """Return a token that a broker accepts now. It may raise anything: of an error only the type is logged."""
        raise NotImplementedError


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
