"""The command `sluice-pipeline recommend`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pipeline.cli.options import with_spark
from pipeline.cli.output_files import check_output, write_output
from pipeline.cli.printing import tell, visible
from policies.quota.entity import KEYS, REQUEST_RATE, entity_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.recommend.recommendation import Recommendation

LEVELS = {"auto": "auto", "user": "user", "client-id": "client_id", "both": "both"}
COLUMNS = (
    *("entity", "limit", "per second", "p50", "p99", "p99.9", "max", "windows", "instances"),
    *("skew", "predicted throttled", "why"),
)
MAX_NAME_CHARS = 60
LINE_CHARS = 400
"""Each rule is on one line."""


def _limits(_context: click.Context, _option: click.Parameter, given: str) -> tuple[str, ...]:
    asked = tuple(dict.fromkeys(text.strip() for text in given.split(",")))
    unknown = [each for each in asked if each not in KEYS]
    if unknown:
        raise click.BadParameter(f"found {unknown[0]!r}, expected some of {','.join(KEYS)}")
    return tuple(key for key in KEYS if key in asked)


@click.command()
@click.argument("tables")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="The quota file to write. [default: -, standard output]",
)
@click.option(
    "--percentile", type=click.FloatRange(0, 100, min_open=True), default=99.9, show_default=True,
    help="The share of a client's windows that pass, in percent.",
)  # fmt: skip
@click.option(
    "--headroom", type=click.FloatRange(min=0, min_open=True), default=1.1, show_default=True,
    help="The limit is the percentile times this.",
)  # fmt: skip
@click.option(
    "--limit", "limits", default=",".join(KEYS), callback=_limits, metavar="KEYS", show_default=True,
    help="The kinds of limits, with commas between them.",
)  # fmt: skip
@click.option(
    "--level", type=click.Choice(list(LEVELS)), default="auto", show_default=True,
    help="The entities of the rules. auto: users, or client ids where no client authenticates.",
)  # fmt: skip
@click.option(
    "--min-rate", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True,
    help="The smallest request rate, per second.",
)  # fmt: skip
@click.option(
    "--max-rules", type=click.IntRange(0, 10_000), default=100, show_default=True,
    help="Rules of each kind besides the default, at most (a user may need two).",
)  # fmt: skip
@click.option(
    "--enforcement", type=click.Choice(["entity", "channel"]), default="entity", show_default=True,
    help="The setting of the quota policy that the back-test assumes.",
)  # fmt: skip
@click.option("--no-backtest", is_flag=True, help="Do not predict what the rules throttle.")
@click.option("--json", "as_json", is_flag=True, help="Print the rules as JSON, not as a table.")
@with_spark
def recommend(
    spark: SparkSession,
    tables: str,
    output: str,
    percentile: float,
    headroom: float,
    limits: tuple[str, ...],
    level: str,
    min_rate: float,
    max_rules: int,
    enforcement: Literal["entity", "channel"],
    *,
    no_backtest: bool,
    as_json: bool,
) -> None:
    """Recommend quotas for the clients in TABLES, and write them as a quota file.

    Sluice takes the file as it is: by the setting quotas_file of the policy quota, or by
    `sluice quotas apply FILE`. Rates are those of one Sluice. The table says why each rule
    is there, and which share of requests it is predicted to throttle: the rules are fitted to the
    first 70 % of the time and tried on the rest.
    """
    from pipeline.recommend.recommendation import Wishes  # noqa: PLC0415 - Spark, which --help need not wait for
    from pipeline.recommend.recommendation import recommend as find  # noqa: PLC0415 - as above
    from pipeline.recommend.rules import Sizing  # noqa: PLC0415 - as above
    from policies.quota.quota_file import render_quota_file  # noqa: PLC0415 - as above

    if output != "-":
        check_output(Path(output))
    sizing = Sizing(headroom, min_rate=min_rate, max_rules=max_rules)
    wishes = Wishes(
        LEVELS[level],  # type: ignore[arg-type] # the values of LEVELS are levels
        limits,
        percentile,
        sizing,
        enforcement,
        tests=not no_backtest,
    )
    found = find(spark, tables, wishes)
    text = render_quota_file(found.file(datetime.now(UTC).replace(microsecond=0)))
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_output(Path(output), text)
    # The table is for people; where the file itself goes to standard output it must not be in it.
    said = json.dumps(as_rows(found), indent=1) if as_json else as_table(found)
    click.echo(said, err=output == "-")
    for note in found.notes:
        tell(f"note: {note}", err=True)


def as_rows(found: Recommendation) -> list[dict[str, object]]:
    """Return the rules as JSON has them; rates are per second."""
    return [
        {
            "user": rule.entity.user,
            "client_id": rule.entity.client_id,
            "limit": rule.key,
            "per_second": rule.limit,
            **{name: getattr(rule.need, name) for name in ("p50", "p99", "p999", "max")},
            **{name: getattr(rule.need, name) for name in ("windows", "instances", "skew")},
            "covers": rule.covers,
            "predicted_throttled_share": found.shares.get((rule.entity, rule.key)),
            "reason": rule.reason,
        }
        for rule in found.rules
    ]


def as_table(found: Recommendation) -> str:
    """Return the rules as lines of text; bytes per second in KiB."""
    from rich.console import Console  # noqa: PLC0415 - start-up of other commands
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if place in {0, 1, len(COLUMNS) - 1} else "right")
    for rule in found.rules:
        unit = 1.0 if rule.key == REQUEST_RATE else 1024.0
        need, share = rule.need, found.shares.get((rule.entity, rule.key))
        rates = (rule.limit, need.p50, need.p99, need.p999, need.max)
        cells = (
            _shown(entity_text(rule.entity)),
            rule.key if unit == 1 else f"{rule.key}, KiB",
            *(f"{rate / unit:,.1f}".removesuffix(".0") for rate in rates),
            *(f"{need.windows:,}", str(need.instances), f"{need.skew:.2f}"),
            "-" if share is None else f"{share:.2%}",
            _shown(rule.reason),
        )
        table.add_row(*map(Text, cells))
    console = Console(width=LINE_CHARS, color_system=None, markup=False)
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    entities = len({rule.entity for rule in found.rules})
    lines.append(
        f"{len(found.rules)} limits of {entities} entities, per second and for each Sluice."
    )
    return "\n".join(lines)


def _shown(text: str) -> str:
    """Return a text that clients chose a part of, on one line and without control characters."""
    plain = visible(text)
    return plain if len(plain) <= MAX_NAME_CHARS else f"{plain[: MAX_NAME_CHARS - 3]}..."
