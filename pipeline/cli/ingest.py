"""The command `sluice-pipeline ingest`."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@click.argument("usage_log")
@click.argument("tables")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@with_spark
def ingest(spark: SparkSession, usage_log: str, tables: str, *, as_json: bool) -> None:
    """Turn the files of USAGE_LOG into TABLES, which all other jobs read.

    Run it again when there are more files: it reads the new ones only, and adds no row twice. Several may run at once.
    Lines that are no rows are in TABLES/quarantine. Exit code 1: some files could not be read.
    """
    from pipeline.ingest.job import Ingest  # noqa: PLC0415 - Spark, which --help need not wait for

    summary = Ingest(spark, usage_log, tables, time.time_ns() // 1_000_000).run()
    click.echo(json.dumps(summary.as_json()) if as_json else summary.text())
    if summary.unreadable:
        sys.exit(1)
