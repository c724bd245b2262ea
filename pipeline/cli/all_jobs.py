"""The command `sluice-pipeline all`: from a usage log to a page, in one Spark session."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark
from pipeline.cli.output_files import check_output, write_output
from pipeline.cli.printing import tell
from pipeline.cli.recommend import as_table
from pipeline.cli.report import PAGE, TRACES, now_ms, say, write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command("all")
@click.argument("usage_log")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@TRACES
@with_spark
def all_jobs(spark: SparkSession, usage_log: str, *, folder: Path, traces: tuple[str, ...]) -> None:
    """Run ingest, recommend and whatif on USAGE_LOG and write report.html, quotas.yaml and the tables into FOLDER.

    Everything runs in one Spark session. The last line that is printed is the path of the page.
    """
    from pipeline.ingest.job import Ingest  # noqa: PLC0415 - Spark, which --help need not wait for
    from pipeline.recommend.recommendation import Wishes, recommend  # noqa: PLC0415 - as above
    from pipeline.report.quota_facts import level_of, present_quotas  # noqa: PLC0415 - as above
    from pipeline.report.report_job import ReportJob  # noqa: PLC0415 - as above
    from policies.quota.quota_file import render_quota_file  # noqa: PLC0415 - as above

    page, quotas = folder / PAGE, folder / "quotas.yaml"
    for file in (page, quotas):
        check_output(file)
    tables = str(folder.resolve() / "tables")
    say("ingest")
    summary = Ingest(spark, usage_log, tables, now_ms()).run()
    click.echo(summary.text())
    facts = ReportJob(spark, tables, now_ms(), say).run(traces, duplicates=summary.duplicates)
    say("recommend")
    level = level_of(present_quotas(facts.clients), facts.clients)
    found = recommend(spark, tables, Wishes(level=level))
    click.echo(as_table(found))
    tell(*found.notes)
    write_output(quotas, render_quota_file(found.file(datetime.now(UTC))))
    tell(f"recommended quotas: {quotas.resolve()}")
    write_page(page, facts)
    if summary.unreadable:
        sys.exit(1)
