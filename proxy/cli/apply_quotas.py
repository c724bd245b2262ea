"""`sluice quotas apply`: sets the quotas of a quota file live, after showing the difference.

- A quota that already has its value is left alone, also if it comes from a file. So a second run changes nothing.
- Every change is validated before the first is made. The server makes the changes of one request together; only a
  file with more changes than one request may have needs several.
- Exit codes as of every command of `sluice quotas`; 2 for a file that cannot be used.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from proxy.cli import options, tables
from proxy.cli.kafka_options import connected, with_server_options
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.quota.entity import QuotaEntity
    from policies.quota.quota_file import QuotaFile
    from proxy.cli.kafka_options import Where
    from proxy.cli.kafka_quotas import QuotaRow

COLUMNS = ("change", "user", "client id", "quota", "now", "new")
UNUSABLE = 2


class QuotaDifference(NamedTuple):
    """A limit that differs. `before` is None if there is none now, `after` if the live quota is to be removed."""

    entity: QuotaEntity
    key: str
    before: float | None
    after: float | None

    @property
    def kind(self) -> str:
        """`add`, `change` or `remove`."""
        if self.after is None:
            return "remove"
        return "add" if self.before is None else "change"


@click.command("apply")
@with_server_options
@click.argument(
    "quota_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--prune", is_flag=True, help="Also remove live quotas that the file does not have.")
@options.DRY_RUN
@options.JSON
def apply_quotas(
    where: Where, quota_file: Path, *, prune: bool, dry_run: bool, as_json: bool
) -> None:
    """Set the quotas of a quota file, at once and for all connections.

    FILE is YAML or JSON, as `sluice-pipeline recommend` writes it; - is standard input. The
    difference is shown first. All changes are checked before the first is made.
    """
    wanted = _read(quota_file)
    with connected(where) as server:
        from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - start-up of other commands

        found = server.quotas(QuotaEntity())
        changes = difference(found, wanted, prune=prune)
        unchanged = sum(1 for line in wanted.quotas for _ in line.limits()) - sum(
            each.after is not None for each in changes
        )
        if not as_json:
            _print(changes, unchanged)
        warnings = server.alter(by_entity(changes), dry_run=dry_run) if changes else []
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(as_text(changes, unchanged, dry_run=dry_run))
    elif dry_run:
        click.echo("The changes are valid. Nothing was changed (--dry-run).")
    elif changes:
        click.echo("Done.")


def difference(
    found: Iterable[QuotaRow], wanted: QuotaFile, *, prune: bool
) -> list[QuotaDifference]:
    """Return the limits of the file that are not in force, in its order.

    With `prune` also the live quotas (on a broker: all) that the file does not have.
    """
    rows = {(each.entity, each.key): each for each in found}
    limits = {(line.entity, key): value for line in wanted.quotas for key, value in line.limits()}
    changes: list[QuotaDifference] = []
    for (entity, key), value in limits.items():
        row = rows.get((entity, key))
        if row is None or row.value != value:
            changes.append(QuotaDifference(entity, key, row and row.value, value))
    if prune:
        changes += (
            QuotaDifference(each.entity, each.key, each.value, None)
            for place, each in rows.items()
            if place not in limits and each.origin in {"override", None}
        )
    return changes


def by_entity(changes: Iterable[QuotaDifference]) -> dict[QuotaEntity, dict[str, float | None]]:
    """Return the changes as KafkaQuotas.alter takes them."""
    ops: dict[QuotaEntity, dict[str, float | None]] = {}
    for each in changes:
        ops.setdefault(each.entity, {})[each.key] = each.after
    return ops


def as_text(changes: Sequence[QuotaDifference], unchanged: int, *, dry_run: bool) -> str:
    """Return the difference as JSON."""
    rows = [
        {
            "change": each.kind,
            "user": each.entity.user,
            "client_id": each.entity.client_id,
            "quota": each.key,
            "before": each.before,
            "after": each.after,
        }
        for each in changes
    ]
    return json.dumps({"changes": rows, "unchanged": unchanged, "dry_run": dry_run}, indent=1)


def _read(file: Path) -> QuotaFile:
    """Return the content of the file; if it cannot be used, print every mistake and exit."""
    from policies.quota.quota_file import parse_quota_file  # noqa: PLC0415 - start-up of other commands
    from policies.validation import SettingsError  # noqa: PLC0415 - as above
    from policies.yaml_text import MAX_BYTES  # noqa: PLC0415 - as above

    label = "standard input" if str(file) == "-" else str(file)
    try:
        with click.open_file(str(file), "rb") as opened:
            return parse_quota_file(opened.read(MAX_BYTES + 1), label)
    except OSError as error:
        click.echo(f"{label}: {error.strerror or error}", err=True)
    except SettingsError as error:
        count = len(error.problems)
        click.echo(f"{count} problem{'s' * (count > 1)} in the quota file:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
    sys.exit(UNUSABLE)


def _print(changes: Sequence[QuotaDifference], unchanged: int) -> None:
    from proxy.cli.quota_views import number  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.views import format_name  # noqa: PLC0415 - as above

    if changes:
        cells = [
            (
                each.kind,
                format_name(each.entity.user),
                format_name(each.entity.client_id),
                each.key,
                *("-" if value is None else number(value) for value in (each.before, each.after)),
            )
            for each in changes
        ]
        click.echo(tables.format_table(COLUMNS, cells, terminal_width()))
    counts = [
        f"{sum(each.kind == kind for each in changes)} to {kind}"
        for kind in ("add", "change", "remove")
    ]
    click.echo(f"{', '.join(counts)}, {unchanged} unchanged.")
