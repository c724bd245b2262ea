"""The options that say which admin server is asked. What a container's environment says of it is taken as well."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.ctl.client import Client, Place

REFUSED = 1

_WHERE = (
    click.option(
        "--socket",
        metavar="PATH",
        envvar="SLUICE_ADMIN_SOCKET",
        show_envvar=True,
        help="The Unix socket of its admin server.",
    ),
    click.option(
        "--address",
        metavar="HOST:PORT",
        envvar="SLUICE_ADMIN_CONTROL",
        show_envvar=True,
        help="Its control address; needs the token.",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="SLUICE_ADMIN_TOKEN_FILE",
        show_envvar=True,
        help="The file with the token.",
    ),
    click.option(
        "-c",
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar="SLUICE_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="Ask the Sluice of this machine that has this configuration.",
    ),
)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above, made into a Client; what it refuses ends the program."""

    @wraps(command)
    def asked(
        *,
        socket: str | None,
        address: str | None,
        token_file: Path | None,
        file: Path | None,
        **others: object,
    ) -> None:
        place = _place(socket, address, token_file, file)
        with _client(place) as client:
            command(client, **others)

    decorated: Callable[..., None] = asked
    for option in reversed(_WHERE):
        decorated = option(decorated)
    return decorated


@contextmanager
def _client(place: Place) -> Iterator[Client]:
    from proxy.ctl.client import Client, RefusedError, UnreachableError  # noqa: PLC0415 - start-up

    try:
        yield Client(place)
    except (RefusedError, UnreachableError) as error:
        click.echo(str(error), err=True)
        for problem in getattr(error, "answer", {}).get("problems", ()):
            click.echo(f"  {problem}", err=True)
        sys.exit(REFUSED)


def _place(
    path: str | None, address: str | None, token_file: Path | None, file: Path | None
) -> Place:
    """The socket goes before the address; what is given goes before what the configuration says."""
    from proxy.ctl.client import Place  # noqa: PLC0415 - start-up of other commands

    if not path and not address and file is not None:
        path, address, token_file = _configured(file, token_file)
    if path:
        return Place(path=path)
    if not address:
        words = "Say where its admin server is: --socket, --address, or --config."
        raise click.UsageError(words)
    if token_file is None:
        raise click.UsageError("--address needs --token-file.")
    try:
        token = token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"The token cannot be read: {error}") from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise click.UsageError(f"{token_file} holds no token: one word is expected.")
    return Place(address=address, token=token)


def _configured(file: Path, token_file: Path | None) -> tuple[str, str, Path | None]:
    from policies.settings import SettingsError  # noqa: PLC0415 - start-up of other commands
    from proxy.config.sources import load  # noqa: PLC0415 - as above

    try:
        admin = load(file, os.environ, {}).config.admin
    except SettingsError as error:
        raise click.UsageError(f"The settings of {file} cannot be used:\n{error}") from error
    if token_file is None and admin.token_file:
        token_file = Path(admin.token_file)
    return admin.socket, admin.control, token_file
