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
    from pipeline.recommend.rules import QuotaRule

LEVELS = {"auto": "auto", "user": "user", "client-id": "client_id", "both": "both"}
COLUMNS = (
    *("entity", "limit", "per second", "need", "mean", "max", "seconds", "instances"),
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


class Percent(click.ParamType[float]):
    """A share, given in percent with or without its sign."""

    name = "percent"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the share, from 0 to 1."""
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            self.fail(f"found {value!r}, expected a percentage from 0 to below 100", param, ctx)
        return share


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
    "--target", type=Percent(), default="1%", show_default=True,
    help="The need is the smallest limit that throttles at most this share of the requests.",
)  # fmt: skip
@click.option(
    "--headroom", type=click.FloatRange(min=0, min_open=True), default=1.1, show_default=True,
    help="The limit is the need times this.",
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
    "--enforcement", type=click.Choice(["entity", "channel"]),
    help="How the quotas will be enforced. [default: as when the rows were recorded, else entity]",
)  # fmt: skip
@click.option(
    "--burst-seconds", type=click.FloatRange(0, 3600), default=2.0, show_default=True,
    help="entity: how many seconds' worth may pass at once.",
)  # fmt: skip
@click.option("--no-backtest", is_flag=True, help="Do not predict what the rules throttle.")
@click.option("--json", "as_json", is_flag=True, help="Print the rules as JSON, not as a table.")
@with_spark
def recommend(
    spark: SparkSession,
    tables: str,
    output: str,
    target: float,
    headroom: float,
    limits: tuple[str, ...],
    level: str,
    min_rate: float,
    max_rules: int,
    enforcement: Literal["entity", "channel"] | None,
    burst_seconds: float,
    *,
    no_backtest: bool,
    as_json: bool,
) -> None:
    """Recommend quotas for the clients in TABLES, and write them as a quota file.

    Sluice takes the file as it is: by the setting quotas_file of the policy quota, or by
    `sluice quotas apply FILE`. Rates are those of one Sluice. The table says why each rule
    is there, and which share of requests it is predicted to throttle: rules that are fitted to the
    first 70 % of the time are tried on the rest.
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
        target,
        sizing,
        enforcement,
        burst_seconds,
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
            "need": rule.need.value,
            **{name: getattr(rule.need, name) for name in ("mean", "max")},
            **{name: getattr(rule.need, name) for name in ("seconds", "instances", "skew")},
            "covers": rule.covers,
            "predicted_throttled_share": _share(found, rule),
            "above_target": found.above_target(rule),
            "reason": rule.reason,
        }
        for rule in found.rules
    ]


def _share(found: Recommendation, rule: QuotaRule) -> float | None:
    tried = found.tried.get((rule.entity, rule.key))
    return None if tried is None else tried.share


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
        need, share = rule.need, _share(found, rule)
        rates = (rule.limit, need.value, need.mean, need.max)
        above = f"; above the target of {found.target:.4g}" if found.above_target(rule) else ""
        cells = (
            _shown(entity_text(rule.entity)),
            rule.key if unit == 1 else f"{rule.key}, KiB",
            *(f"{rate / unit:,.1f}".removesuffix(".0") for rate in rates),
            *(f"{need.seconds:,}", str(need.instances), f"{need.skew:.2f}"),
            "-" if share is None else f"{share:.2%}",
            f"{_shown(rule.reason)}{above}",
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
