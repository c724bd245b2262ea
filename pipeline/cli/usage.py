"""The command `sluice-pipeline usage`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark
from pipeline.cli.printing import print_csv, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOP = 20
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


@click.command()
@click.argument("tables")
@click.option(
    "--by",
    default="user",
    show_default=True,
    help="Comma-separated: user, client_id, api, topic, instance, minute, hour, day; '' is one line for all.",
)
@click.option("--from", "first", type=click.DateTime(_TIMES), help="First second, UTC.")
@click.option("--to", "end", type=click.DateTime(_TIMES), help="End, UTC, not included.")
@click.option(
    "--top", type=click.IntRange(min=1), help=f"Most lines. Default: {TOP} in a table, else all."
)
@click.option(
    "--sort", help="The column to sort by, largest first; of hour and day the first comes first."
)
@click.option("--json", "as_json", is_flag=True, help="Print all columns as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all columns as CSV.")
@click.option(
    "--output", metavar="URI", help="Write all columns and lines there as Parquet as well."
)
@with_spark
def usage(
    spark: SparkSession,
    tables: str,
    by: str,
    first: datetime | None,
    end: datetime | None,
    top: int | None,
    sort: str | None,
    *,
    as_json: bool,
    as_csv: bool,
    output: str | None,
) -> None:
    """Show who used what, from TABLES: requests, bytes, outcomes, throttles and waits.

    By topic: records and bytes. By API: how requests ended and where they waited. All times are UTC.
    """
    from pipeline.cli.usage_table import print_usage  # noqa: PLC0415 - Spark, which --help need not wait for
    from pipeline.tables import TimeRange, read_missing_rows  # noqa: PLC0415 - as above
    from pipeline.usage import families_for, read_usage, sorted_by  # noqa: PLC0415 - as above

    columns = [each.strip() for each in by.split(",") if each.strip()]
    span = TimeRange(_ms(first), _ms(end))
    quality = read_missing_rows(spark, tables, families_for(columns))
    found = sorted_by(read_usage(spark, tables, columns, span), columns, sort)
    if output:
        found = found.persist()
        found.write.mode("overwrite").parquet(output)
    limited = found.limit(top) if top else found
    if as_json:
        rows = limited.toArrow().to_pylist()
        click.echo(json.dumps({"usage": rows, "quality": quality._asdict()}, default=str))
    elif as_csv:  # millions of lines do not fit into memory
        print_csv(found.columns, (row.asDict() for row in limited.toLocalIterator()))
    else:
        most = top or TOP
        rows = found.limit(most + 1).toArrow().to_pylist()  # one more says whether there are others
        print_usage(rows[:most], columns, has_more=len(rows) > most)
    if quality.line and not as_json:
        tell(quality.line, err=as_csv)


def _ms(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)
