"""The command `sluice-pipeline maintain`."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import SparkSession

MIN_DAYS = 2
"""A row may be of the day before that of its file, so one day is too few to know what was read."""


def _days(_context: click.Context, option: click.Parameter, given: str | None) -> timedelta | None:
    """Return a length of time that is given as whole days."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,5})d", given)
    least = 1 if option.name == "horizon" else MIN_DAYS
    if found is None or int(found[1]) < least:
        raise click.BadParameter(f"found {given!r}, expected days from {least}d, such as 400d")
    return timedelta(days=int(found[1]))


@click.command()
@click.argument("tables")
@click.option(
    "--retain", callback=_days, metavar="DAYSd",
    help="Delete rows, and what else was written of days, that are older. Default: keep all.",
)  # fmt: skip
@click.option(
    "--retain-rollups", callback=_days, metavar="DAYSd",
    help="The same for the rollups by minute and hour. Default: as --retain.",
)  # fmt: skip
@click.option(
    "--horizon", callback=_days, metavar="DAYSd", default="7d", show_default=True,
    help="Delete files that are no longer used after so long; a job must not run for longer.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would be done.")
@with_spark
def maintain(
    spark: SparkSession,
    tables: str,
    retain: timedelta | None,
    retain_rollups: timedelta | None,
    horizon: timedelta,
    *,
    dry_run: bool,
) -> None:
    """Keep TABLES small: join small files, merge rollups, delete old days and unused files.

    Run it once a day. Jobs and `ingest` may run meanwhile, and it may be stopped at any time. It also takes the tables
    that `stream` writes.
    """
    from pipeline.maintain import Plan, maintain  # noqa: PLC0415 - Spark, which --help need not wait for

    if retain and retain_rollups and retain_rollups < retain:
        raise click.UsageError(
            f"--retain-rollups {retain_rollups.days}d is less than --retain {retain.days}d"
        )
    now = datetime.now(UTC)
    first = _day_before(now, retain)
    plan = Plan(
        time.time_ns() // 1_000_000,
        first,
        _day_before(now, retain_rollups) or first,
        horizon.days,
        dry_run,
    )
    for each in maintain(spark, tables, plan):
        click.echo(each.text(is_dry=dry_run))


def _day_before(now: datetime, length: timedelta | None) -> date | None:
    return None if length is None else (now - length).date()
