"""The options that several commands share, each declared once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config

    Option = Callable[[Any], Any]

Command = TypeVar("Command")
DEFAULT_SERVER: Final = "127.0.0.1:19092"


def add_options(command: Command, *options: Option) -> Command:
    """Return the function of a command with these options, which its help lists in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def config(text: str) -> Option:
    """Return `--config`; `text` is its help."""
    return click.option(
        "-c",
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar="SLUICE_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help=text,
    )


def load_config(file: Path) -> Config:
    """Return the configuration of a command that asks a running Sluice. Raises click.UsageError."""
    from policies.validation import SettingsError  # noqa: PLC0415 - start-up of other commands
    from proxy.config.sources import load  # noqa: PLC0415 - as above

    try:
        return load(file, os.environ, {}).config
    except SettingsError as error:
        raise click.UsageError(f"The settings of {file} cannot be used:\n{error}") from error


def admin_server(*, environ: bool) -> tuple[Option, ...]:
    """Return the options that name an admin server; with `environ` also the settings' own variables name it."""
    return (
        click.option(
            "--socket",
            metavar="PATH",
            envvar="SLUICE_ADMIN_SOCKET" if environ else None,
            show_envvar=environ,
            help="Unix socket of the admin server; auto: that of this user's Sluice on this machine.",
        ),
        click.option(
            "--address",
            metavar="HOST:PORT",
            envvar="SLUICE_ADMIN_CONTROL" if environ else None,
            show_envvar=environ,
            help="Control address of the admin server; needs --token-file.",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="SLUICE_ADMIN_TOKEN_FILE",
            show_envvar=True,
            help="File with the token of --address.",
        ),
    )


SETTINGS: Final = (
    config("The YAML file. Every setting in it also has an environment variable."),
    click.option(
        "--upstream", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of the real cluster."
    ),
    click.option(
        "--listen",
        metavar="ADDRESS:PORT",
        help=f"The bootstrap port that clients connect to.  [default: {DEFAULT_SERVER}]",
    ),
    click.option(
        "--nodes",
        metavar="IDS",
        help="Broker ids that get a port of their own, after the bootstrap port.  [default: 0-31]",
    ),
)
LOCAL_CONFIG: Final = config("Ask the Sluice on this machine that has this configuration.")
ENTITY: Final = (
    click.option("--user", metavar="NAME", help="Quotas of this user."),
    click.option("--default-user", is_flag=True, help="Quotas of users without one of their own."),
    click.option("--client-id", metavar="NAME", help="Quotas of this client id."),
    click.option("--default-client-id", is_flag=True, help="Quotas of all other client ids."),
)
JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Check the change without making it.")


def limit(highest: int, default: int) -> Option:
    """Return `--limit`, the largest number of rows to list: 1..`highest`."""
    return click.option(
        "--limit",
        type=click.IntRange(1, highest),
        default=default,
        show_default=True,
        help="List this many rows at most.",
    )
