"""Where the admin server is: by options, by the environment variables of the settings, or by a configuration."""

from __future__ import annotations

import os
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.cli import options
from proxy.cli.errors import FAILED, exits_on_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admin.client import AdminAddress


def with_admin_client(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the admin server to a command, which gets an AdminClient; its errors end the program."""

    @wraps(command)
    def asked(
        *,
        socket: str | None,
        address: str | None,
        token_file: Path | None,
        file: Path | None,
        **others: object,
    ) -> None:
        from proxy.admin.client import AdminClient  # noqa: PLC0415 - start-up of other commands

        place = find_admin_server(socket, address, token_file, file)
        with exits_on_failure():
            command(AdminClient(place), **others)

    return options.add_options(asked, *options.admin_server(environ=True), options.LOCAL_CONFIG)


def find_admin_server(
    path: str | None, address: str | None, token_file: Path | None, file: Path | None
) -> AdminAddress:
    """Return where to ask: the socket before the address, an option before the configuration.

    Without any, or with `auto`, it is this user's Sluice on this machine. Raises click.UsageError.
    """
    from proxy.admin import default_socket  # noqa: PLC0415 - start-up of other commands
    from proxy.admin.client import AdminAddress  # noqa: PLC0415 - as above
    from proxy.config.telemetry import AUTO, NO_SOCKET  # noqa: PLC0415 - as above

    port = None
    if (not path or path == AUTO) and not address and file is not None:
        path, address, token_file, port = _configured(file, token_file)
    if path and path not in (AUTO, *NO_SOCKET):
        return AdminAddress(path=path)
    if not address and path in NO_SOCKET:
        raise click.UsageError(
            "This Sluice has no admin server: admin.socket is none, and admin.control is not set."
        )
    if (
        port is not None and path == AUTO and address
    ):  # both are configured: the socket needs no token
        path = next(iter(default_socket.find(os.environ, port)), "")
        if path:
            return AdminAddress(path=path)
    if not address:
        return AdminAddress(path=_found(port))
    if token_file is None:
        raise click.UsageError("--address needs --token-file.")
    try:
        token = token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--token-file cannot be read: {error}") from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise click.UsageError(
            f"{token_file} does not hold a token: expected one word of visible characters."
        )
    return AdminAddress(address=address, token=token)


def _found(port: int | None) -> str:
    """Return the default socket of this user's Sluice on this machine; exit if there is none, or several."""
    from proxy.admin import default_socket  # noqa: PLC0415 - start-up of other commands

    paths = default_socket.find(os.environ, port)
    if len(paths) == 1:
        return paths[0]
    if paths:
        listed = "\n  ".join(paths)
        raise click.UsageError(
            f"Several Sluices run here: name one by --socket PATH or --config FILE. PATH is one of\n  {listed}"
        )
    looked = " or ".join(map(str, default_socket.folders(os.environ)))
    words = "start `sluice run`, ask as its user, or name its admin server by --socket or --address"
    click.echo(f"No Sluice of this user answers in {looked}: {words}.", err=True)
    sys.exit(FAILED)


def _configured(file: Path, token_file: Path | None) -> tuple[str, str, Path | None, int]:
    from proxy.config.telemetry import NO_SOCKET  # noqa: PLC0415 - start-up of other commands

    config = options.load_config(file)
    admin = config.admin
    if token_file is None and admin.token_file:
        token_file = Path(admin.token_file)
    return admin.socket or NO_SOCKET[0], admin.control, token_file, config.listen.port
