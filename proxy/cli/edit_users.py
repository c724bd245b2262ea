"""`sluice users`: adds, removes and lists the users of a users file (`listen.sasl.users_file`).

- A password is asked for without echo, or read from a file or from standard input; it is never an argument, which
  other users of the machine could see.
- The file is replaced atomically, and two commands at once do not lose each other's change. A running Sluice reads
  the new file by itself.

Exit codes: 0 done, 1 no such user or an unusable file, 2 invalid options.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from proxy.cli.errors import FAILED
from proxy.config.small_files import FileError
from proxy.config.users_file import load_text, load_users, users_of
from proxy.core.auth.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SCRAM_SHA_512
from proxy.core.auth.stored_users import (
    DEFAULT_ITERATIONS,
    SALT_BYTES,
    name_problem,
    new_credential,
)
from proxy.core.auth.users_text import (
    STAND_IN_KEY_BYTES,
    with_credentials,
    with_stand_in_key,
    without_user,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER: Final = "# The users of Sluice: NAME MECHANISM=keys. Changed by `sluice users`.\n"
MAX_PASSWORD_BYTES: Final = 1024
FILE = click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    envvar="SLUICE_LISTEN_SASL_USERS_FILE",
    show_envvar=True,
    metavar="FILE",
    help="The users file.",
)


def _check_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if expected := name_problem(name):
        raise click.BadParameter(f"found {name!r}, expected {expected}")
    return name


NAME = click.argument("name", callback=_check_name)


@click.group()
def users() -> None:
    """Edit the users that authenticate to Sluice.

    The file has salted keys, no passwords. A running Sluice reads a changed file within seconds.
    """


@users.command()
@NAME
@FILE
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(MECHANISMS)),
    multiple=True,
    default=(SCRAM_SHA_512.name,),
    show_default=True,
    help="Make keys for this mechanism; may be given twice. A password of PLAIN is verified with either.",
)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help="How often the password is hashed.",
)
@click.option(
    "--password-file",
    type=click.File("rb"),
    help="Read the password from the first line of this file; - is standard input.",
)
def add(
    name: str,
    path: Path,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: BinaryIO | None,
) -> None:
    """Add a user, or replace the user's password.

    The password is asked for unless standard input is no terminal, or --password-file is given.
    """
    password = _password(password_file)
    credentials = [
        new_credential(MECHANISMS[each], password, secrets.token_bytes(SALT_BYTES), iterations)
        for each in dict.fromkeys(mechanisms)
    ]
    with _failing(), _locked(path):
        text = load_text(str(path)) if path.exists() else HEADER
        is_known = name in users_of(str(path), text)
        text = with_stand_in_key(text, secrets.token_bytes(STAND_IN_KEY_BYTES))
        _save(path, with_credentials(text, name, credentials))
    click.echo(f"{'Changed' if is_known else 'Added'} {name}.")


@users.command()
@NAME
@FILE
def remove(name: str, path: Path) -> None:
    """Remove a user. A running Sluice closes its connections."""
    with _failing(), _locked(path):
        text = load_text(str(path))
        if name not in users_of(str(path), text):
            click.echo(f"There is no user {name} in {path}.", err=True)
            sys.exit(FAILED)
        _save(path, without_user(text, name) or HEADER)
    click.echo(f"Removed {name}.")


@users.command("list")
@FILE
def list_users(path: Path) -> None:
    """List the users and their mechanisms, in the order of the file."""
    with _failing():
        found = load_users(str(path))
    for name in found:
        kinds = (f"{each.mechanism.name} ({each.iterations})" for each in found.credentials(name))
        click.echo(f"{name}\t{', '.join(kinds)}")


def _password(file: BinaryIO | None) -> bytes:
    """Return the password. Exits with an error if it is empty, too long, or no text."""
    if file is None and sys.stdin.isatty():
        text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        password = text.encode()
    else:
        line = (file or sys.stdin.buffer).readline(MAX_PASSWORD_BYTES + 3)
        password = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = password.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or "\0" in text or len(password) > MAX_PASSWORD_BYTES:
        words = f"1..{MAX_PASSWORD_BYTES} bytes of UTF-8 text without NUL"
        raise click.UsageError(f"the password cannot be used, expected {words}")
    return password


def _save(path: Path, text: str) -> None:
    """Replace the file. Raises FileError if the new text is none that Sluice reads, and OSError."""
    from proxy.shell import files  # noqa: PLC0415 - only where a file is written

    users_of(str(path), text)
    files.save(str(path.resolve()), text.encode(), keeps_access=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other commands from editing files of the same folder meanwhile."""
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def _failing() -> Iterator[None]:
    """Print what is wrong with a file to standard error, and end with exit code 1."""
    try:
        yield
    except FileError as error:
        click.echo(str(error), err=True)
        sys.exit(FAILED)
    except OSError as error:
        click.echo(f"{error.filename}: {error.strerror or error}", err=True)
        sys.exit(FAILED)
