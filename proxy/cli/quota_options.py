"""The options of every command of `sluice quotas`: the server, the way to ask it, and the entity.

- `--bootstrap`, `--tls` and `--login` ask over Kafka, `--socket` and `--address` over the admin server; not both.
- Without any of them: over Kafka, the Sluice that `--config` describes, or the default port of this machine.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import click

from proxy.admin.errors import UnreachableError
from proxy.cli import kafka_options, options
from proxy.cli.errors import exits_on_failure
from proxy.cli.kafka_options import KafkaOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy.cli.quota_source import QuotaSource

WAYS = "--bootstrap or --login asks over Kafka, --socket or --address over the admin server"


class Where(NamedTuple):
    """The options that name the Sluice and the way to ask it."""

    kafka: KafkaOptions
    file: Path | None
    socket: str | None
    address: str | None
    token_file: Path | None


def with_server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the Sluice to a command, which gets them as a Where."""

    @wraps(command)
    def asked(
        *,
        file: Path | None,
        socket: str | None,
        address: str | None,
        token_file: Path | None,
        **others: object,
    ) -> None:
        kafka = KafkaOptions(**{name: others.pop(name) for name in KafkaOptions._fields})  # type: ignore[arg-type] # click has checked them
        command(Where(kafka, file, socket, address, token_file), **others)

    admin_server = options.admin_server(environ=False)
    return options.add_options(asked, *kafka_options.OPTIONS, *admin_server, options.LOCAL_CONFIG)


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
def open_source(where: Where) -> Iterator[QuotaSource]:
    """Connect over Kafka or to the admin server; an error of either ends the program.

    Raises click.UsageError if the options name both ways, or are incomplete.
    """
    if where.socket is None and where.address is None:
        with exits_on_failure(), _over_kafka(where) as source:
            yield source
        return
    if where.kafka.is_given:
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

    server, login = (
        kafka_options.server_of(where.kafka, where.file),
        kafka_options.login_of(where.kafka),
    )
    try:
        connection = Connection(server.address, login, server.tls)
    except UnreachableError as error:
        if (
            where.kafka.bootstrap is None
        ):  # the address is a default: the message explains the options
            raise UnreachableError(f"{error} Name a Sluice: {WAYS}.") from error
        raise
    with connection:
        yield KafkaQuotas(connection)
