"""The options of a connection over Kafka: the server, TLS and the login; and those of every command of `sluice quotas`.

Without `--bootstrap` it is the Sluice that `--config` describes, else the default port of this machine.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

import click

from proxy.admin.errors import UnreachableError
from proxy.cli import options
from proxy.cli.errors import exits_on_failure
from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy.cli.kafka_client import Login
    from proxy.cli.kafka_quotas import KafkaQuotas
    from proxy.config import Config
    from proxy.config.security import UpstreamTls


MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_FILE: Final = click.Path(dir_okay=False)
OPTIONS: Final = (
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"Connect to this address.  [default: {options.DEFAULT_SERVER}]",
    ),
    click.option("--tls", is_flag=True, help="Connect by TLS."),
    click.option(
        "--ca-file",
        type=_FILE,
        help="Certificates that sign the server's (PEM); implies --tls.  [default: the system's]",
    ),
    click.option(
        "--cert-file", type=_FILE, help="The client's own certificate (PEM); needs --key-file."
    ),
    click.option("--key-file", type=_FILE, help="Private key of --cert-file (PEM)."),
    click.option("--login", metavar="NAME", help="Authenticate by SASL as this user."),
    click.option(
        "--password-file",
        type=click.File(encoding="utf-8"),
        help="File with the password of --login; - for standard input.  [default: prompt]",
    ),
    click.option(
        "--sasl-mechanism",
        type=click.Choice(MECHANISMS, case_sensitive=False),
        default=MECHANISMS[0],
        show_default=True,
        help="SASL mechanism of --login.",
    ),
)


class KafkaOptions(NamedTuple):
    """The values of OPTIONS."""

    bootstrap: str | None = None
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    login: str | None = None
    password_file: TextIO | None = None
    sasl_mechanism: str = MECHANISMS[0]


class Server(NamedTuple):
    """A server and what its listener asks for."""

    address: str
    tls: UpstreamTls | None


def server_of(given: KafkaOptions, file: Path | None) -> Server:
    """Return the server that the options name, else that of the configuration in `file`, else the default.

    A listener with TLS is trusted by its own certificate, which is on this machine, unless --ca-file names another.
    """
    from proxy.config.values import SERVER_PATTERN  # noqa: PLC0415 - start-up of other commands

    tls = _tls(given)
    if given.bootstrap is not None:
        if not re.fullmatch(SERVER_PATTERN, given.bootstrap):
            words = f"found {given.bootstrap!r}, expected HOST:PORT"
            raise click.BadParameter(words, param_hint="--bootstrap")
        return Server(given.bootstrap, tls)
    if file is None:
        return Server(options.DEFAULT_SERVER, tls)
    return _server_of_config(options.load_config(file), tls)


def login_of(given: KafkaOptions) -> Login | None:
    """Return the credentials, with the password of the file or of a prompt; None without --login."""
    from proxy.cli.kafka_client import Login  # noqa: PLC0415 - start-up of other commands

    if given.login is None:
        if given.password_file is not None:
            raise click.UsageError("--password-file needs --login.")
        return None
    if given.password_file is None:
        password: str = click.prompt("Password", hide_input=True, err=True)
    else:
        password = given.password_file.readline().rstrip("\r\n")
    return Login(given.login, password, given.sasl_mechanism)


def _tls(given: KafkaOptions) -> UpstreamTls | None:
    from proxy.config.security import UpstreamTls  # noqa: PLC0415 - start-up of other commands

    if (given.cert_file is None) != (given.key_file is None):
        raise click.UsageError("--cert-file and --key-file need each other.")
    if not (given.tls or given.ca_file or given.cert_file):
        return None
    return UpstreamTls(
        ca_file=given.ca_file or "", cert_file=given.cert_file or "", key_file=given.key_file or ""
    )


def _server_of_config(config: Config, tls: UpstreamTls | None) -> Server:
    from proxy.config.security import UpstreamTls  # noqa: PLC0415 - start-up of other commands
    from proxy.config.values import ANY_ADDRESS  # noqa: PLC0415 - as above

    listen = config.listen
    host = "127.0.0.1" if listen.address in ANY_ADDRESS else listen.address
    address = host_port(host, listen.port)
    if listen.tls is None:
        return Server(address, tls)
    given = tls or UpstreamTls(ca_file=listen.tls.cert_file)
    return Server(
        address,
        UpstreamTls(
            ca_file=given.ca_file,
            cert_file=given.cert_file,
            key_file=given.key_file,
            server_name=listen.advertised_host,
        ),
    )


class Where(NamedTuple):
    """The options that name the Sluice."""

    kafka: KafkaOptions
    file: Path | None


def with_server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the Sluice to a command, which gets them as a Where."""

    @wraps(command)
    def asked(*, file: Path | None, **others: object) -> None:
        kafka = KafkaOptions(**{name: others.pop(name) for name in KafkaOptions._fields})  # type: ignore[arg-type] # click has checked them
        command(Where(kafka, file), **others)

    return options.add_options(asked, *OPTIONS, options.LOCAL_CONFIG)


def with_quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add those options and the entity's to a command, which gets them as a Where and a QuotaEntity."""

    @wraps(command)
    def asked(
        where: Where,
        *,
        user: str | None,
        default_user: bool,
        client_id: str | None,
        default_client_id: bool,
        **others: object,
    ) -> None:
        from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - start-up of other commands

        entity = QuotaEntity(
            _name("user", user, is_default=default_user),
            _name("client-id", client_id, is_default=default_client_id),
        )
        command(where, entity, **others)

    return options.add_options(with_server_options(asked), *options.ENTITY)


def _name(kind: str, name: str | None, *, is_default: bool) -> str | None:
    from policies.quota.entity import DEFAULT_NAME  # noqa: PLC0415 - start-up of other commands

    if name is not None and is_default:
        raise click.UsageError(f"--{kind} and --default-{kind} exclude each other.")
    if name == "":
        raise click.BadParameter("found nothing, expected a name", param_hint=f"--{kind}")
    return DEFAULT_NAME if is_default else name


@contextmanager
def connected(where: Where) -> Iterator[KafkaQuotas]:
    """Connect to the Sluice; an error of it ends the program. Raises click.UsageError for incomplete options."""
    from proxy.cli.kafka_client import Connection  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.kafka_quotas import KafkaQuotas  # noqa: PLC0415 - as above

    server, login = (
        server_of(where.kafka, where.file),
        login_of(where.kafka),
    )
    with exits_on_failure():
        try:
            connection = Connection(server.address, login, server.tls)
        except UnreachableError as error:
            if where.kafka.bootstrap is None and where.file is None:  # the address is a default
                error.args = (f"{error} Name a Sluice by --bootstrap or --config.",)
            raise
        with connection:
            yield KafkaQuotas(connection)
