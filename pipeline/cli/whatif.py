"""The command `sluice-pipeline whatif`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from pipeline.cli.options import with_spark
from pipeline.cli.printing import tell
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.whatif.predict import Candidate
    from pipeline.whatif.sweep import SweepPoint


def _factors(_context: click.Context, _option: click.Parameter, text: str | None) -> list[float]:
    from pipeline.whatif.sweep import factors_of  # noqa: PLC0415 - Spark, which --help need not wait for

    try:
        return [1.0] if text is None else factors_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("tables")
@click.option("--quotas", required=True, metavar="FILE", help="The candidate: a quota file.")
@click.option(
    "--enforcement",
    type=click.Choice(["entity", "channel"]),
    default="entity",
    show_default=True,
    help="How the candidate would be enforced.",
)
@click.option(
    "--burst-seconds",
    type=click.FloatRange(0, 3600),
    default=2.0,
    show_default=True,
    help="entity: how many seconds' worth may pass at once.",
)
@click.option("--sweep", callback=_factors, metavar="LOW..HIGH[:STEPS]", help="Try its multiples.")
@click.option("--capture", is_flag=True, help="Simulate the captured requests one by one.")
@click.option(
    "--recorded-under",
    metavar="FILE",
    help="With --capture: replay it first with the quotas that it was recorded under.",
)
@click.option("--output", metavar="URI", help="Write the predictions of all clients as Parquet.")
@click.option("--top", default=20, show_default=True, help="How many clients to print.")
@click.option("--json", "as_json", is_flag=True, help="Print all clients as JSON.")
@with_spark
def whatif(
    spark: SparkSession,
    tables: str,
    *,
    quotas: str,
    enforcement: Literal["entity", "channel"],
    burst_seconds: float,
    sweep: list[float],
    capture: bool,
    recorded_under: str | None,
    output: str | None,
    top: int,
    as_json: bool,
) -> None:
    """Predict what the quotas of FILE would have done to the clients of TABLES.

    A client that is throttled sends later, not less: the prediction is a closed loop. Without --capture it is made
    from one-second rows, with it from every request. Exit code 1: a replay gave other delays than were recorded.
    """
    from pipeline.tables import read, read_missing_rows  # noqa: PLC0415 - Spark, which --help need not wait for
    from pipeline.whatif import jobs  # noqa: PLC0415 - as above
    from pipeline.whatif.predict import Candidate  # noqa: PLC0415 - as above
    from pipeline.whatif.sweep import curve  # noqa: PLC0415 - as above

    if recorded_under is not None and not capture:
        raise click.UsageError("--recorded-under needs --capture: one-second rows have no delays")
    lines = jobs.read_quota_file(spark, quotas).quotas
    candidate = Candidate(lines, enforcement, burst_seconds, factors=tuple(sweep))
    family = "capture" if capture else "entity"
    quality = read_missing_rows(spark, tables, [family])
    if quality.line:
        tell(quality.line, err=True)
    exact = True
    rows = read(spark, tables, family) if capture else None
    if rows is not None and recorded_under is not None:
        own = Candidate(
            jobs.read_quota_file(spark, recorded_under).quotas, enforcement, burst_seconds
        )
        exact = _check(jobs.check_capture(rows, own), as_json=as_json)
    if rows is not None:
        results = jobs.whatif_capture(rows, candidate).persist()
    else:
        results = jobs.whatif_tables(spark, tables, candidate).persist()
    try:
        if output is not None:
            results.write.mode("overwrite").parquet(output)
        points = curve(results)
        if not points:
            raise PipelineError(f"no quota of {quotas} applies to a client in {tables}/{family}")
        if as_json:
            _print_json(results, candidate, points)
        else:
            _print(results, candidate, points, top)
    finally:
        results.unpersist()
    if not exact:
        sys.exit(1)


def _check(checked: DataFrame, *, as_json: bool) -> bool:
    """Print how many delays the replay of each process gives again; return whether it is all of them."""
    exact = True
    for row in checked.orderBy("instance", "boot").toArrow().to_pylist():
        exact = exact and not row["different"]
        given = row["requests"] - row["different"]
        text = (
            f"replay of {row['instance']} {row['boot']}: {given:,} of {row['requests']:,} delays "
            f"as recorded ({row['delayed']:,} requests were delayed)"
        )
        if row["lost_events"]:
            text += f"; {row['lost_events']:,} calls of the policies are missing in the capture"
        tell(text, err=as_json)
    return exact


def _print_json(results: DataFrame, candidate: Candidate, points: list[SweepPoint]) -> None:
    clients = results.drop("delay_i", "delay_n").orderBy(
        "instance", "user", "client_id", "limit_key", "factor"
    )
    found: dict[str, Any] = {
        "enforcement": candidate.enforcement,
        "burst_seconds": candidate.burst_seconds,
        "curve": [point.as_json() for point in points],
        "clients": clients.toArrow().to_pylist(),
    }
    click.echo(json.dumps(found, indent=1))


def _print(results: DataFrame, candidate: Candidate, points: list[SweepPoint], top: int) -> None:
    from pipeline.cli.whatif_tables import print_clients, print_curve  # noqa: PLC0415 - rich

    print_curve(points)
    nearest = min(candidate.factors, key=lambda factor: abs(factor - 1))
    ordered = results.where(f"factor = {nearest}D and limit is not null").orderBy(
        "throttled_share", "wanted_per_s", ascending=False
    )
    print_clients(ordered.drop("delay_i", "delay_n").limit(top).toArrow().to_pylist(), nearest)
