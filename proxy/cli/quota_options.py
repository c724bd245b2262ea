"""The options of every command of `sluice quotas`: the Sluice to ask over Kafka, and the entity.

Without `--bootstrap` it is the Sluice that `--config` describes, else the default port of this machine.
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

    from proxy.cli.kafka_quotas import KafkaQuotas


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

    return options.add_options(asked, *kafka_options.OPTIONS, options.LOCAL_CONFIG)


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
        kafka_options.server_of(where.kafka, where.file),
        kafka_options.login_of(where.kafka),
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
