"""The command `sluice-pipeline migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@click.argument("old")
@click.argument("new")
@with_spark
def migrate(spark: SparkSession, old: str, new: str) -> None:
    """Write the tables NEW from OLD, the Parquet tables of an older Sluice, which stay as they are.

    Once, before the first `ingest` into NEW, which then reads only files that the older Sluice has not read. If it is
    stopped, run it again: it goes on.
    """
    from pipeline.migrate import migrate  # noqa: PLC0415 - Spark, which --help need not wait for

    for line in migrate(spark, old, new):
        click.echo(line)
