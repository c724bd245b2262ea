"""The settings that a command is given: by a file, by environment variables and by options."""

from __future__ import annotations

import os
import sys
import time
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import click

from proxy.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from policies.validation import SettingsError
    from proxy.config.sources import Effective

INVALID = 1
"""Exit code of a command that only looks at the settings."""
UNUSABLE = 2
"""Exit code of `run`."""


class GivenSettings(NamedTuple):
    """The file and the options of one command line."""

    file: Path | None
    flags: Mapping[str, tuple[str, str]]
    """Key path to (text, option)."""

    def read(self, *, preflight: bool = False, keep_policies: bool = False) -> Effective:
        """Return the effective settings. Raises SettingsError.

        `preflight` also checks the files, folders and variables that a start needs.
        """
        from proxy.config.sources import load  # noqa: PLC0415 - start-up of other commands

        if not preflight:
            return load(self.file, os.environ, self.flags, keep_policies=keep_policies)
        from proxy.preflight.machine import findings  # noqa: PLC0415 - as above

        return load(
            self.file,
            os.environ,
            self.flags,
            lambda config: findings(config, os.environ, time.time()),
            keep_policies=keep_policies,
        )

    def read_or_exit(
        self, code: int, *, preflight: bool = False, keep_policies: bool = False
    ) -> Effective:
        """Return the effective settings and print their hints; see `read`.

        If they are invalid, print every problem and exit with `code`.
        """
        from policies.validation import SettingsError  # noqa: PLC0415 - start-up of other commands

        try:
            effective = self.read(preflight=preflight, keep_policies=keep_policies)
        except SettingsError as error:
            print_problems(error)
            sys.exit(code)
        print_hints(effective)
        return effective


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the settings to a command, which gets them as GivenSettings."""

    @wraps(command)
    def given(
        *,
        file: Path | None,
        upstream: str | None,
        listen: str | None,
        nodes: str | None,
        **others: object,
    ) -> None:
        command(GivenSettings(file, _flags(upstream, listen, nodes)), **others)

    return options.add_options(given, *options.SETTINGS)


def print_problems(error: SettingsError, where: str = "settings") -> None:
    """Print every problem to standard error."""
    count = len(error.problems)
    click.echo(f"{count} problem{'s' if count > 1 else ''} in the {where}:", err=True)
    for problem in error.problems:
        click.echo(f"  {problem}", err=True)


def print_hints(effective: Effective) -> None:
    """Print what the settings may have meant otherwise to standard error."""
    for hint in effective.hints:
        click.echo(f"hint: {hint}", err=True)


def _flags(
    upstream: str | None, listen: str | None, nodes: str | None
) -> Mapping[str, tuple[str, str]]:
    """Return the options that were given; `--listen` may leave out the address."""
    flags: dict[str, tuple[str, str]] = {}
    if upstream is not None:
        flags["upstream.bootstrap_servers"] = (upstream, "--upstream")
    if listen is not None:
        address, colon, port = listen.rpartition(":")
        if not colon or not port:
            words = "ADDRESS:PORT, or :PORT (an IPv6 address in brackets)"
            raise click.BadParameter(f"found {listen!r}, expected {words}", param_hint="--listen")
        if address:
            bare = address.removeprefix("[").removesuffix("]")
            flags["listen.address"] = (bare, "--listen")
        flags["listen.port"] = (port, "--listen")
    if nodes is not None:
        flags["listen.nodes"] = (nodes, "--nodes")
    return flags
