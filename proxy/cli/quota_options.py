"""The options that every command of `sluice quotas` takes: whom to ask, as whom, about whom.

- Whom: the Sluice at `--bootstrap`, or the one that `--config` describes, or the one at the default
  port of this machine.
- A refusal or a failure is one sentence on standard error, and the exit code 1.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.cli.kafka_client import Login
    from proxy.cli.kafka_quotas import Remote

DEFAULT_SERVER = "127.0.0.1:19092"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
REFUSED = 1


class Where(NamedTuple):
    """The options that say whom to ask, and as whom."""

    bootstrap: str | None
    file: Path | None
    login: str | None
    password_file: TextIO | None
    sasl_mechanism: str


_WHERE = (
    click.option(
        "--bootstrap", metavar="HOST:PORT", help=f"Sluice's address.  [default: {DEFAULT_SERVER}]"
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
    click.option("--login", metavar="NAME", help="Authenticate by SASL, as an admin of quotas."),
    click.option(
        "--password-file",
        type=click.File(encoding="utf-8"),
        help="Its password; - for standard input.  [default: ask]",
    ),
    click.option(
        "--sasl-mechanism",
        type=click.Choice(MECHANISMS, case_sensitive=False),
        default=MECHANISMS[0],
        show_default=True,
    ),
)
_WHOM = (
    click.option("--user", metavar="NAME", help="Of this user."),
    click.option("--default-user", is_flag=True, help="Of users without a quota of their own."),
    click.option("--client-id", metavar="NAME", help="Of this client id."),
    click.option("--default-client-id", is_flag=True, help="Of all other client ids."),
)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Where` and `QuotaEntity`, made into these two."""

    @wraps(command)
    def asked(
        *,
        bootstrap: str | None,
        file: Path | None,
        login: str | None,
        password_file: TextIO | None,
        sasl_mechanism: str,
        user: str | None,
        default_user: bool,
        client_id: str | None,
        default_client_id: bool,
        **others: object,
    ) -> None:
        where = Where(bootstrap, file, login, password_file, sasl_mechanism)
        from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - start-up of other commands

        entity = QuotaEntity(
            _name("user", user, is_default=default_user),
            _name("client-id", client_id, is_default=default_client_id),
        )
        command(where, entity, **others)

    decorated: Callable[..., None] = asked
    for option in reversed((*_WHOM, *_WHERE)):
        decorated = option(decorated)
    return decorated


def _name(kind: str, name: str | None, *, is_default: bool) -> str | None:
    from policies.quota.entity import ANY  # noqa: PLC0415 - start-up of other commands

    if name is not None and is_default:
        raise click.UsageError(f"--{kind} and --default-{kind} exclude each other.")
    if name == "":
        raise click.BadParameter("found nothing, expected a name", param_hint=f"--{kind}")
    return ANY if is_default else name


@contextmanager
def remote_of(where: Where) -> Iterator[Remote]:
    """Whoever is asked; a refusal or a failure is said on standard error, and ends the program."""
    from proxy.cli.kafka_client import Connection, UnreachableError  # noqa: PLC0415 - start-up
    from proxy.cli.kafka_quotas import RefusedError, Remote  # noqa: PLC0415 - start-up

    server, login = _server(where), _login(where)
    try:
        with Connection(server, login) as connection:
            yield Remote(connection)
    except (UnreachableError, RefusedError) as error:
        click.echo(str(error), err=True)
        sys.exit(REFUSED)


def _server(where: Where) -> str:
    import re  # noqa: PLC0415 - start-up of other commands

    from proxy.config.values import ANY_ADDRESS, SERVER_PATTERN  # noqa: PLC0415 - as above

    if where.bootstrap is not None:
        if not re.fullmatch(SERVER_PATTERN, where.bootstrap):
            words = f"found {where.bootstrap!r}, expected HOST:PORT"
            raise click.BadParameter(words, param_hint="--bootstrap")
        return where.bootstrap
    if where.file is None:
        return DEFAULT_SERVER
    from policies.validation import SettingsError  # noqa: PLC0415 - as above
    from proxy.config.sources import load  # noqa: PLC0415 - as above

    try:
        listen = load(where.file, os.environ, {}).config.listen
    except SettingsError as error:
        raise click.UsageError(f"The settings of {where.file} cannot be used:\n{error}") from error
    host = "127.0.0.1" if listen.address in ANY_ADDRESS else listen.address
    return f"[{host}]:{listen.port}" if ":" in host else f"{host}:{listen.port}"


def _login(where: Where) -> Login | None:
    from proxy.cli.kafka_client import Login  # noqa: PLC0415 - start-up of other commands

    if where.login is None:
        if where.password_file is not None:
            raise click.UsageError("--password-file needs --login.")
        return None
    if where.password_file is None:
        password: str = click.prompt("Password", hide_input=True, err=True)
    else:
        password = where.password_file.readline().rstrip("\r\n")
    return Login(where.login, password, where.sasl_mechanism)
