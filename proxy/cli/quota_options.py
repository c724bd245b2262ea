"""The options of every command of `sluice quotas`: the server, the way to ask it, and the entity.

- `--bootstrap` and `--login` ask over Kafka, `--socket` and `--address` over the admin server; not both.
- Without any of them: over Kafka, the Sluice that `--config` describes, or the default port of this machine.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from proxy.admin.errors import UnreachableError
from proxy.cli import options
from proxy.cli.errors import exits_on_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy.cli.kafka_client import Login
    from proxy.cli.quota_source import QuotaSource

WAYS = "--bootstrap or --login asks over Kafka, --socket or --address over the admin server"


class Where(NamedTuple):
    """The options that name the Sluice and the way to ask it."""

    bootstrap: str | None
    file: Path | None
    login: str | None
    password_file: TextIO | None
    sasl_mechanism: str
    socket: str | None
    address: str | None
    token_file: Path | None


def with_quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as a Where and a QuotaEntity."""

    @wraps(command)
    def asked(
        *,
        bootstrap: str | None,
        file: Path | None,
        login: str | None,
        password_file: TextIO | None,
        sasl_mechanism: str,
        socket: str | None,
        address: str | None,
        token_file: Path | None,
        user: str | None,
        default_user: bool,
        client_id: str | None,
        default_client_id: bool,
        **others: object,
    ) -> None:
        where = Where(
            bootstrap, file, login, password_file, sasl_mechanism, socket, address, token_file
        )
        from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - start-up of other commands

        entity = QuotaEntity(
            _name("user", user, is_default=default_user),
            _name("client-id", client_id, is_default=default_client_id),
        )
        command(where, entity, **others)

    admin_server = options.admin_server(environ=False)
    return options.add_options(
        asked, *options.ENTITY, *options.KAFKA, *admin_server, options.LOCAL_CONFIG
    )


def _name(kind: str, name: str | None, *, is_default: bool) -> str | None:
    from policies.quota.entity import DEFAULT_NAME  # noqa: PLC0415 - start-up of other commands

    if name is not None and is_default:
        raise click.UsageError(f"--{kind} and --default-{kind} exclude each other.")
    if name == "":
        raise click.BadParameter("found nothing, expected a name", param_hint=f"--{kind}")
    return DEFAULT_NAME if is_default else name


@contextmanager
def open_source(where: Where) -> Iterator[QuotaSource]:
    """Connect over Kafka or to the admin server; an error of either ends the program.

    Raises click.UsageError if the options name both ways, or are incomplete.
    """
    if where.socket is None and where.address is None:
        with exits_on_failure(), _over_kafka(where) as source:
            yield source
        return
    if where.bootstrap is not None or where.login is not None:
        raise click.UsageError(f"Give one of the two: {WAYS}.")
    from proxy.admin.client import AdminClient  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.admin_options import find_admin_server  # noqa: PLC0415 - as above
    from proxy.cli.admin_quotas import AdminQuotas  # noqa: PLC0415 - as above

    place = find_admin_server(where.socket, where.address, where.token_file, where.file)
    with exits_on_failure():
        yield AdminQuotas(AdminClient(place))


@contextmanager
def _over_kafka(where: Where) -> Iterator[QuotaSource]:
    from proxy.cli.kafka_client import Connection  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.kafka_quotas import KafkaQuotas  # noqa: PLC0415 - as above

    server, login = _server(where), _login(where)
    try:
        connection = Connection(server, login)
    except UnreachableError as error:
        if where.bootstrap is None:  # the address is a default: the message explains the options
            raise UnreachableError(f"{error} Name a Sluice: {WAYS}.") from error
        raise
    with connection:
        yield KafkaQuotas(connection)


def _server(where: Where) -> str:
    import re  # noqa: PLC0415 - start-up of other commands

    from proxy.config.values import ANY_ADDRESS, SERVER_PATTERN  # noqa: PLC0415 - as above

    if where.bootstrap is not None:
        if not re.fullmatch(SERVER_PATTERN, where.bootstrap):
            words = f"found {where.bootstrap!r}, expected HOST:PORT"
            raise click.BadParameter(words, param_hint="--bootstrap")
        return where.bootstrap
    if where.file is None:
        return options.DEFAULT_SERVER
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
