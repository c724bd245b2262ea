"""The command `sluice-pipeline report`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.options import with_spark
from pipeline.cli.output_files import check_output, write_output
from pipeline.cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from pipeline.report.facts import ReportFacts

PAGE = "report.html"
TRACES = click.option(
    "--traces", multiple=True, metavar="FILE", help="A file of traces; may be repeated."
)


@click.command()
@click.argument("tables")
@TRACES
@click.option("--quotas", metavar="FILE", help="Recommended quotas; computed if not given.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=PAGE,
    show_default=True,
    help="The page, a local file.",
)
@with_spark
def report(
    spark: SparkSession, tables: str, *, traces: tuple[str, ...], quotas: str | None, output: Path
) -> None:
    """Make one HTML page of TABLES: usage, throttled clients, quotas and needs, predictions, waits, losses.

    The page loads nothing and needs no script. Predictions are for the quotas in force, smaller and larger.
    """
    from pipeline.report.report_job import ReportJob  # noqa: PLC0415 - Spark, which --help need not wait for

    check_output(output)
    facts = ReportJob(spark, tables, now_ms(), say).run(traces, quotas)
    write_page(output, facts)


def write_page(page: Path, facts: ReportFacts) -> None:
    """Write the page, and print its findings and its path."""
    from pipeline.report.headline import findings, headline  # noqa: PLC0415 - as above
    from pipeline.report.labels import without_isolates  # noqa: PLC0415 - as above
    from pipeline.report.page import html_of  # noqa: PLC0415 - as above

    say("charts")
    write_output(page, html_of(facts))
    lines: Sequence[str] = [headline(facts), *findings(facts)]
    tell(*map(without_isolates, lines))
    tell(f"report: {page.resolve()}")


def say(step: str) -> None:
    """Print the step that begins, with the time, to standard error."""
    tell(f"{time.strftime('%H:%M:%S')} {step} ...", err=True)


def now_ms() -> int:
    """Return the present."""
    return time.time_ns() // 1_000_000
