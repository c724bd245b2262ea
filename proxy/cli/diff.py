"""`sluice diff`: the changes that a reload with a new configuration would make.

Exit codes, as those of diff(1): 0 no change, 1 changes, 2 the comparison cannot be made.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

import click

from policies.escaping import escaped
from proxy.cli import options
from proxy.cli.settings import UNUSABLE, with_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.cli.settings import GivenSettings
    from proxy.config.changes import ShownConfig

CHANGED: Final = 1


def _with_server(command: Callable[..., None]) -> Callable[..., None]:
    return options.add_options(command, *options.admin_server(environ=False))


@click.command()
@with_settings
@_with_server
@options.JSON
def diff(
    given: GivenSettings,
    *,
    socket: str | None,
    address: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Print the changes that a reload with these settings would make.

    Compares them with those of the running Sluice, and says which of them need a restart. Values of settings that are
    named like a secret are not shown. Exit code 0: no change; 1: changes; 2: a configuration is invalid, or Sluice
    does not answer.
    """
    from proxy.config.changes import needs_restart, setting_changes, shown  # noqa: PLC0415 - start-up of others

    after = shown(given.read_or_exit(UNUSABLE).config)
    before, live = _running(socket, address, token_file)
    found = setting_changes(before, after)
    if as_json:
        rows = [each._asdict() | {"restart": needs_restart(each, live)} for each in found]
        click.echo(json.dumps(rows, indent=1))
    else:
        for each in found:
            note = " (needs a restart)" if needs_restart(each, live) else ""
            click.echo(escaped(f"{each.path}: {each.before} -> {each.after}{note}"))
        if not found:
            click.echo("No change.")
    sys.exit(CHANGED if found else 0)


def _running(
    socket: str | None, address: str | None, token_file: Path | None
) -> tuple[ShownConfig, Sequence[str]]:
    from proxy.admin.client import AdminClient  # noqa: PLC0415 - start-up of other commands
    from proxy.admin.errors import RefusedError, UnreachableError  # noqa: PLC0415 - as above
    from proxy.cli.admin_options import find_admin_server  # noqa: PLC0415 - as above
    from proxy.config.changes import ShownConfig  # noqa: PLC0415 - as above

    try:
        said = AdminClient(find_admin_server(socket, address, token_file, None)).get("/v1/config")
    except (RefusedError, UnreachableError) as error:
        click.echo(escaped(str(error)), err=True)
        sys.exit(UNUSABLE)
    return ShownConfig(said["settings"], said["files"]), said["live"]
