"""`sluice quotas`: lists, sets, removes and explains the quotas of a running Sluice, and lists their usage.

`apply_quotas` has the command that sets those of a file.

It asks over Kafka, which works from any client machine (`proxy.cli.kafka_options`).
Exit codes: 0 done, 1 refused or unreachable, 2 invalid options.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from proxy.cli import options, tables
from proxy.cli.apply_quotas import apply_quotas
from proxy.cli.errors import FAILED
from proxy.cli.kafka_options import connected, with_quota_options
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.quota.entity import QuotaEntity
    from proxy.cli.kafka_options import Where
    from proxy.cli.kafka_quotas import KafkaQuotas, QuotaRow


@click.group()
def quotas() -> None:
    """List, change and explain the quotas of a running Sluice.

    It asks over Kafka, which works from any client machine. The setting admins of the policy quota
    lists the users that may change quotas.
    """


@quotas.command("list")
@with_quota_options
@options.JSON
def list_quotas(where: Where, entity: QuotaEntity, *, as_json: bool) -> None:
    """List the quotas in force and the origin of each.

    Options narrow the list: --user alice lists the quotas of that user and of all its client ids.
    """
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    with connected(where) as server:
        found = server.quotas(entity)
    if as_json:
        click.echo(quota_views.quotas_json(found))
    elif found:
        click.echo(_quota_lines(found))
    else:
        click.echo("There are no quotas.")


@quotas.command("set")
@with_quota_options
@options.DRY_RUN
@click.argument("quotas", metavar="QUOTA=VALUE...", nargs=-1, required=True)
def set_quotas(
    where: Where, entity: QuotaEntity, *, dry_run: bool, quotas: tuple[str, ...]
) -> None:
    """Set quotas of one entity, at once and for all its connections.

    request_rate in requests per second, producer_byte_rate and consumer_byte_rate in bytes per
    second. All are set, or none.
    """
    _need_entity(entity)
    ops: dict[str, float | None] = {}
    for text in quotas:
        key, equals, value = text.partition("=")
        if equals and key in ops:
            raise click.BadParameter(f"{key} is given twice")
        try:
            ops[key] = float(value)
        except ValueError:
            words = "a number" if equals else "QUOTA=VALUE"
            raise click.BadParameter(f"found {text!r}, expected {words}") from None
    with connected(where) as server:
        for warning in server.alter({entity: ops}, dry_run=dry_run):
            click.echo(f"warning: {warning}", err=True)
        if dry_run:
            click.echo("The change is valid. Nothing was changed (--dry-run).")
        else:
            _print_quotas(server, entity)


@quotas.command("remove")
@with_quota_options
@options.DRY_RUN
@click.argument("quotas", metavar="[QUOTA]...", nargs=-1)
def remove_quotas(
    where: Where, entity: QuotaEntity, *, dry_run: bool, quotas: tuple[str, ...]
) -> None:
    """Remove live quotas of one entity: those named, or all of them.

    The quotas of the config file are in force again.
    """
    _need_entity(entity)
    with connected(where) as server:
        keys = quotas or tuple(
            each.key
            for each in server.quotas(entity, exactly=True)
            if each.origin in {"override", None}
        )
        if not keys:
            click.echo("The entity has no live quota.", err=True)
            sys.exit(FAILED)
        server.alter({entity: dict.fromkeys(keys)}, dry_run=dry_run)
        if dry_run:
            click.echo(f"Would remove: {', '.join(keys)}. Nothing was changed (--dry-run).")
        else:
            _print_quotas(server, entity)


@quotas.command("explain")
@with_quota_options
def explain_quotas(where: Where, entity: QuotaEntity) -> None:
    """Explain which quotas are in force for one client, and why.

    Give --user and --client-id. Without --user it is ANONYMOUS, a client without authentication.
    """
    from policies.api import ANONYMOUS  # noqa: PLC0415 - start-up of other commands
    from policies.quota.entity import DEFAULT_NAME, QuotaEntity  # noqa: PLC0415 - as above
    from proxy.cli import quota_views  # noqa: PLC0415 - as above

    if DEFAULT_NAME in (entity.user, entity.client_id):
        raise click.UsageError("Name one client: by --user, --client-id, or both.")
    with connected(where) as server:
        found = server.quotas(QuotaEntity())
    click.echo(quota_views.explanation(found, entity.user or ANONYMOUS, entity.client_id or ""))


@quotas.command("usage")
@with_quota_options
@options.JSON
def quota_usage(where: Where, entity: QuotaEntity, *, as_json: bool) -> None:
    """List how much of each quota is used, the busiest first.

    Rates are those of the last ten seconds, throttle times those of the last minute.
    """
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    with connected(where) as server:
        rows, message = server.usage(entity)
    if as_json:
        click.echo(quota_views.usage_json(rows))
        return
    if rows:
        used = list(map(quota_views.usage_cells, rows))
        click.echo(tables.format_table(quota_views.USAGE_COLUMNS, used, terminal_width()))
    else:
        click.echo("No client with a quota has connected.")
    if message:
        click.echo(message, err=True)


quotas.add_command(apply_quotas)


def _quota_lines(found: Sequence[QuotaRow]) -> str:
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    rows = list(map(quota_views.quota_cells, found))
    return tables.format_table(quota_views.QUOTA_COLUMNS, rows, terminal_width())


def _print_quotas(server: KafkaQuotas, entity: QuotaEntity) -> None:
    """Print the quotas now in force for this entity."""
    found = server.quotas(entity, exactly=True)
    if found:
        click.echo(_quota_lines(found))
    else:
        click.echo("The entity has no quota now.")


def _need_entity(entity: QuotaEntity) -> None:
    if entity.user is None and entity.client_id is None:
        raise click.UsageError(
            "Name an entity: --user, --default-user, --client-id, --default-client-id, or one of "
            "each kind."
        )
