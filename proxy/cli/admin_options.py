"""The options that say which admin server is asked. What a container's environment says of it is taken as well."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.telemetry.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.cli.admin_client import Client, Place

REFUSED = 1

_WHERE = (
    click.option(
        "--socket",
        metavar="PATH",
        envvar="SLUICE_ADMIN_SOCKET",
        show_envvar=True,
        help="The Unix socket of its admin server.  [default: that of the Sluice of this user that runs here]",
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
    from proxy.cli.admin_client import Client, RefusedError, UnreachableError  # noqa: PLC0415 - start-up

    try:
        yield Client(place)
    except UnreachableError as error:
        click.echo(escaped(str(error)), err=True)
        sys.exit(REFUSED)
    except RefusedError as error:
        click.echo(f"Sluice refused: {escaped(str(error))}" + ":" * bool(error.problems), err=True)
        for problem in error.problems:
            click.echo(f"  {escaped(problem)}", err=True)
        sys.exit(REFUSED)


def _place(
    path: str | None, address: str | None, token_file: Path | None, file: Path | None
) -> Place:
    """The socket goes before the address; what is given goes before what the configuration says.

    Where nothing is said, or `auto`, it is the Sluice of this user that runs here.
    """
    from proxy import admin_socket  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.admin_client import Place  # noqa: PLC0415 - as above
    from proxy.config.telemetry import AUTO, NO_SOCKET  # noqa: PLC0415 - as above

    port = None
    if (not path or path == AUTO) and not address and file is not None:
        path, address, token_file, port = _configured(file, token_file)
    if path and path not in (AUTO, *NO_SOCKET):
        return Place(path=path)
    if not address and path in NO_SOCKET:
        raise click.UsageError(
            "This Sluice has no admin server: admin.socket is none, and admin.control is not set."
        )
    if port is not None and path == AUTO and address:  # both are served: the socket needs no token
        path = next(iter(admin_socket.find(os.environ, port)), "")
        if path:
            return Place(path=path)
    if not address:
        return Place(path=_found(port))
    if token_file is None:
        raise click.UsageError("--address needs --token-file.")
    try:
        token = token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"The token cannot be read: {error}") from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise click.UsageError(f"{token_file} holds no token: one word is expected.")
    return Place(address=address, token=token)


def _found(port: int | None) -> str:
    """The default socket of the Sluice that runs here; without one, or with several, the program ends."""
    from proxy import admin_socket  # noqa: PLC0415 - start-up of other commands

    paths = admin_socket.find(os.environ, port)
    if len(paths) == 1:
        return paths[0]
    if paths:
        listed = "\n  ".join(paths)
        raise click.UsageError(
            f"Several Sluices run here: name one by --socket PATH or --config FILE. PATH is one of\n  {listed}"
        )
    looked = " or ".join(map(str, admin_socket.folders(os.environ)))
    words = "start `sluice run`, ask as the user that runs it, or name its admin server by --socket or --address"
    click.echo(f"No Sluice of this user answers in {looked}: {words}.", err=True)
    sys.exit(REFUSED)


def _configured(file: Path, token_file: Path | None) -> tuple[str, str, Path | None, int]:
    from policies.validation import SettingsError  # noqa: PLC0415 - start-up of other commands
    from proxy.config.sources import load  # noqa: PLC0415 - as above
    from proxy.config.telemetry import NO_SOCKET  # noqa: PLC0415 - as above

    try:
        config = load(file, os.environ, {}).config
    except SettingsError as error:
        raise click.UsageError(f"The settings of {file} cannot be used:\n{error}") from error
    admin = config.admin
    if token_file is None and admin.token_file:
        token_file = Path(admin.token_file)
    return admin.socket or NO_SOCKET[0], admin.control, token_file, config.listen.port
