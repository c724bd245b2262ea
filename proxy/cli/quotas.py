"""The command group `sluice quotas`.

- What it prints is the answer of the Sluice that it asks (see `proxy.cli.quota_options`).
- Exit codes: 0 done, 1 refused or nobody answers, 2 the options cannot be used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from proxy.cli.quota_options import REFUSED, asks, remote_of
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.quota.entity import QuotaEntity
    from policies.quota.sensors import Usage
    from proxy.cli.kafka_quotas import Quota, Remote
    from proxy.cli.quota_options import Where

TOP_SECONDS = 1.0


@click.group()
def quotas() -> None:
    """List, change and watch the quotas of a running Sluice.

    Over the Kafka protocol: from anywhere a client can be, and with a client's rights. Only
    principals that its setting admins names may change quotas.
    """


@quotas.command("list")
@asks
@click.option("--json", "as_json", is_flag=True, help="A JSON list instead of a table.")
def list_quotas(where: Where, entity: QuotaEntity, *, as_json: bool) -> None:
    """Print the quotas that hold, and where each comes from.

    Options narrow the list: --user alice lists hers, for all of her client ids.
    """
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    with remote_of(where) as remote:
        found = remote.quotas(entity)
    if as_json:
        click.echo(quota_views.quotas_json(found))
    elif found:
        click.echo(_quota_lines(found))
    else:
        click.echo("There are no quotas.")


@quotas.command("set")
@asks
@click.option("--dry-run", is_flag=True, help="Have it judged, and change nothing.")
@click.argument("quotas", metavar="QUOTA=VALUE...", nargs=-1, required=True)
def set_quotas(
    where: Where, entity: QuotaEntity, *, dry_run: bool, quotas: tuple[str, ...]
) -> None:
    """Set quotas of one entity, at once and for all its connections.

    request_rate in requests per second, producer_byte_rate and consumer_byte_rate in bytes per
    second. All are set, or none.
    """
    _need_someone(entity)
    ops: dict[str, float | None] = {}
    for text in quotas:
        key, equals, value = text.partition("=")
        if equals and key in ops:
            raise click.BadParameter(f"{key} is there twice")
        try:
            ops[key] = float(value)
        except ValueError:
            words = "a number" if equals else "QUOTA=VALUE"
            raise click.BadParameter(f"found {text!r}, expected {words}") from None
    with remote_of(where) as remote:
        for warning in remote.alter(entity, ops, dry_run=dry_run):
            click.echo(f"warning: {warning}", err=True)
        if dry_run:
            click.echo("That would be done. Nothing was changed.")
        else:
            _tell(remote, entity)


@quotas.command("remove")
@asks
@click.option("--dry-run", is_flag=True, help="Have it judged, and change nothing.")
@click.argument("quotas", metavar="[QUOTA]...", nargs=-1)
def remove_quotas(
    where: Where, entity: QuotaEntity, *, dry_run: bool, quotas: tuple[str, ...]
) -> None:
    """Take live quotas of one entity back; all of them unless some are named.

    What the config file says of it holds again.
    """
    _need_someone(entity)
    with remote_of(where) as remote:
        keys = quotas or tuple(
            each.key for each in remote.quotas(entity, exactly=True) if each.origin != "file"
        )
        if not keys:
            click.echo("It has no live quotas.", err=True)
            sys.exit(REFUSED)
        remote.alter(entity, dict.fromkeys(keys), dry_run=dry_run)
        if dry_run:
            click.echo(f"That would be done: {', '.join(keys)}. Nothing was changed.")
        else:
            _tell(remote, entity)


@quotas.command("explain")
@asks
def explain_quotas(where: Where, entity: QuotaEntity) -> None:
    """Say which quotas hold for one client, and why.

    Give --user and --client-id; without --user it is ANONYMOUS, a client that did not authenticate.
    """
    from policies.api import ANONYMOUS  # noqa: PLC0415 - start-up of other commands
    from policies.quota.entity import ANY, QuotaEntity  # noqa: PLC0415 - as above
    from proxy.cli import quota_views  # noqa: PLC0415 - as above

    if ANY in (entity.user, entity.client_id):
        raise click.UsageError("Name one client: by --user, --client-id, or both.")
    with remote_of(where) as remote:
        found = remote.quotas(QuotaEntity())
    click.echo(quota_views.explained(found, entity.user or ANONYMOUS, entity.client_id or ""))


@quotas.command("top")
@asks
@click.option(
    "--interval",
    type=click.FloatRange(min=0.3, max=3600),
    default=TOP_SECONDS,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="One look, as plain text.")
@click.option("--json", "as_json", is_flag=True, help="One look, as a JSON list.")
def top(where: Where, entity: QuotaEntity, *, interval: float, once: bool, as_json: bool) -> None:
    """Watch who uses how much of his quota, the busiest first.

    Rates are of the last ten seconds, throttle times of the last minute. Ends with Ctrl-C.
    """
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    with remote_of(where) as remote:
        rows, message = remote.usage(entity)
        if as_json:
            click.echo(quota_views.usage_json(rows))
        elif once or not is_watched():
            if rows:
                used = list(map(quota_views.usage_cells, rows))
                click.echo(quota_views.lines(quota_views.USAGE_COLUMNS, used, terminal_width()))
            else:
                click.echo("Nobody with a quota has been seen.")
            if message:
                click.echo(message, err=True)
        else:
            _watch(remote, entity, (rows, message), interval)


def is_watched() -> bool:
    """Somebody sits before it."""
    return sys.stdout.isatty()


def _watch(
    remote: Remote,
    entity: QuotaEntity,
    first: tuple[list[Usage], str | None],
    interval: float,
) -> None:
    import time  # noqa: PLC0415 - start-up of other commands

    from rich.live import Live  # noqa: PLC0415 - as above

    from proxy.cli import quota_views  # noqa: PLC0415 - as above

    rows, message = first
    with Live(screen=True, auto_refresh=False) as live:
        try:
            while True:
                title = time.strftime("%H:%M:%S") + (f"  {message}" if message else "")
                size = live.console.size
                picture = quota_views.usage_picture(rows, title, size.width, size.height)
                live.update(picture, refresh=True)
                time.sleep(interval)
                rows, message = remote.usage(entity)
        except KeyboardInterrupt:
            return


def _quota_lines(found: Sequence[Quota]) -> str:
    from proxy.cli import quota_views  # noqa: PLC0415 - start-up of other commands

    return quota_views.lines(
        quota_views.QUOTA_COLUMNS, list(map(quota_views.quota_cells, found)), terminal_width()
    )


def _tell(remote: Remote, entity: QuotaEntity) -> None:
    """What holds now for this very entity."""
    found = remote.quotas(entity, exactly=True)
    if found:
        click.echo(_quota_lines(found))
    else:
        click.echo("It has no quota now.")


def _need_someone(entity: QuotaEntity) -> None:
    if entity.user is None and entity.client_id is None:
        raise click.UsageError(
            "Say whose quota: --user, --default-user, --client-id, --default-client-id, or one of "
            "each kind."
        )
