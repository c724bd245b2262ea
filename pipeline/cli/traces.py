"""`sluice-pipeline traces`: prints where traced requests spent their time."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from pipeline.cli.options import with_spark
from pipeline.cli.printing import console_of, tell, visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from pipeline.traces.traces_job import TraceFindings

PIPE_WIDTH = 200
"""Columns of text if standard output is no terminal."""
_LOSSES = {
    "without_server": "requests lack their SERVER span and are left out",
    "without_parts": "requests lack spans of their parts: that time is `missing`",
    "without_mute": "requests whose client had to pause lack the span of the pause",
    "duplicates": "spans occur more than once and count once",
}


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--by",
    default="user,api,hour",
    show_default=True,
    help="What to group by: user, client_id, api, topic, hour, service.",
)
@click.option(
    "--slowest",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many of the slowest requests to print.",
)
@click.option(
    "--groups",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many groups to print, those with the most time first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--output",
    metavar="URI",
    help="Also write the tables requests, groups and quarantine there, as Parquet.",
)
@with_spark
def traces(
    spark: SparkSession,
    files: tuple[str, ...],
    by: str,
    slowest: int,
    groups: int,
    as_json: bool,  # noqa: FBT001 - a flag of the command line
    output: str | None,
) -> None:
    """Say where traced requests spent their time, and which were slowest.

    FILES are the files of the setting traces.file, or other files of OTLP/JSON lines.
    """
    from pipeline.traces.traces_job import find  # noqa: PLC0415 - Spark, which --help need not wait for

    keys = [name.strip() for name in by.split(",") if name.strip()]
    found = find(spark, files, by=keys, slowest=slowest, groups=groups, output=output)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    _print(console_of(PIPE_WIDTH), found, keys)


def _print(console: Console, found: TraceFindings, by: list[str]) -> None:
    why = ", ".join(f"{reason} {count:,}" for reason, count in found.reasons.items())
    tell(f"{found.requests:,} traced requests: {why}")
    console.print(found.sample)
    console.print()
    console.print(_latencies([found.overall], []))
    if found.sampled is not None:
        console.print(
            f"\nOf the {found.sampled['requests']:,} of them that were sampled at random,"
            " a fair sample of all requests as far as no spans were dropped:"
        )
        console.print(_latencies([found.sampled], []))
    if by:
        shown = len(found.groups)
        more = "" if shown == found.group_count else f", {shown:,} of {found.group_count:,} groups"
        console.print(f"\nBy {', '.join(by)}{more}:")
        console.print(_latencies(found.groups, by))
    if found.slowest:
        console.print("\nThe slowest:")
        console.print(_slowest(found.slowest))
    tell(*_quality(found))


def _latencies(groups: list[dict[str, Any]], by: list[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (*by, "part"):
        table.add_column(name)
    for name in ("requests", "p50 ms", "p90 ms", "p99 ms", "max ms", "share %"):
        table.add_column(name, justify="right")
    for group in groups:
        keys = [_text(group[name]) for name in by]
        for part in group["parts"]:
            figures = (f"{part[name]:,.3f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
            share = "" if part["share"] is None else f"{part['share']:.1%}".rstrip("%")
            table.add_row(*keys, part["part"], f"{part['requests']:,}", *figures, share)
            keys = [""] * len(by)
    return table


def _slowest(requests: list[dict[str, Any]]) -> Table:
    from pipeline.traces.findings import PARTS, TOTAL  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False)
    for name in ("trace id", "began (UTC)", "user", "client id", "api"):
        table.add_column(name, no_wrap=name == "trace id")
    table.add_column("ms", justify="right")
    table.add_column("of it")
    for request in requests:
        parts = [
            f"{part} {request[f'{part}_ms']:,.3f}"
            for part in PARTS
            if part != TOTAL and request[f"{part}_ms"]
        ]
        table.add_row(
            *(_text(request[name]) for name in ("trace_id", "began", "user", "client_id", "api")),
            f"{request['total_ms']:,.3f}",
            ", ".join(parts),
        )
    return table


def _quality(found: TraceFindings) -> list[str]:
    """Return a line for each kind of loss."""
    lines = [
        f"{found.losses[name]:,} {what}" for name, what in _LOSSES.items() if found.losses[name]
    ]
    lines += [f"{row['count']:,} x {row['reason']} ({row['file']})" for row in found.unread]
    return ["", "Data quality:", *lines] if lines else []


def _text(value: object) -> str:
    return visible(value or "-")
