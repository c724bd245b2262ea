"""Usage from tables equals DuckDB over the lines of the usage log, in every cell."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from pyspark.sql import SparkSession

from pipeline.ingest.job import Ingest
from pipeline.rollups import HOUR_MS, PARTS
from pipeline.schema import STAGES
from pipeline.tables import TimeRange
from pipeline.usage import QUANTILES, read_usage
from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row, write_usage_log

SPANS: Final = (
    TimeRange(),
    TimeRange(START_MS + HOUR_MS - 90_000, START_MS + 2 * HOUR_MS + 1_000),
    TimeRange(START_MS + 60_000, None),
)
GROUPINGS: Final = (("user",), ("client_id", "hour"), ("api", "instance"), ("topic", "day"), ())

QUICK = {(0, 2), (2, 0)}
"""Groupings and times that `make test` compares, by their places."""


def made(family: str, count: int) -> list[Row]:
    """Return rows of three hours with a few names and histograms of up to four buckets."""
    draw = random.Random(family)
    part = PARTS[family]
    rows = []
    for _ in range(count):
        row = usage_row(family, ts_ms=START_MS + draw.randrange(3 * 3600) * 1000)
        names = {"user": ("alice", "bob"), "client_id": ("a", "b", "c"), "topic": ("t", "u")}
        names |= {"api": ("Produce", "Fetch"), "instance": ("pod-1", "pod-2")}
        row |= {name: draw.choice(values) for name, values in names.items() if name in row}
        row |= {name: draw.randrange(1 << 20) for name in (*part.sums, *part.maxima)}
        for stage in part.stages:
            held = sorted(draw.sample(range(1, 240), draw.choice((0, 1, 4))))
            row[f"{stage}_i"], row[f"{stage}_n"] = held, [draw.randrange(1, 99) for _ in held]
        if family == "api":
            row["delay_i"], row["delay_n"] = row["throttle_i"], row["throttle_n"]
        rows.append(row)
    return sorted(rows, key=lambda row: row["ts_ms"])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A usage log of the three families."""
    folder = tmp_path_factory.mktemp("log")
    write_usage_log(folder, numbered(row for family in PARTS for row in made(family, 300)))
    return folder


@pytest.fixture(scope="module")
def uri(spark: SparkSession, log: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tables that `ingest` makes of the log."""
    folder = str(tmp_path_factory.mktemp("tables"))
    Ingest(spark, str(log), folder, START_MS + 3 * HOUR_MS).run()
    return folder


def expected(log: Path, family: str, by: tuple[str, ...], span: TimeRange) -> list[Row]:
    """Return the sums and the percentiles (as buckets) of each group, by DuckDB."""
    steps = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d"}
    lines = duckdb.read_json(f"{log}/{family}/*/*.jsonl")
    lines = lines.filter(f"ts_ms >= {span.first_ms or 0} and ts_ms < {span.end_ms or 1 << 60}")
    for name, text in steps.items():
        lines = lines.project(f"*, strftime(make_timestamp(ts_ms * 1000), '{text}') as {name}")
    keys = ", ".join(by)
    sums = ", ".join(f"sum({name})::bigint as {name}" for name in PARTS[family].sums)
    figures = {key_of(row, by): row for row in dicts(lines.aggregate(_list(keys, sums), keys))}
    for stage in PARTS[family].stages:
        times = lines.project(_list(keys, f"unnest({stage}_i) as bucket, unnest({stage}_n) as n"))
        times = times.aggregate(_list(keys, "bucket, sum(n) as n"), _list(keys, "bucket"))
        over = f"partition by {keys}" if by else ""
        seen = f"sum(n) over ({over} order by bucket) as seen, sum(n) over ({over}) as whole"
        quantiles = ", ".join(
            f"min(bucket) filter (where seen >= {share} * whole) as {stage}_{name}"
            for name, share in QUANTILES.items()
        )
        waited = f"sum(n)::bigint as {stage}_waited, {quantiles}"
        for row in dicts(times.project(f"*, {seen}").aggregate(_list(keys, waited), keys)):
            figures[key_of(row, by)] |= row
    return list(figures.values())


def _list(*columns: str) -> str:
    return ", ".join(each for each in columns if each)


def key_of(row: Row, by: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(row[name] for name in by)


def dicts(found: duckdb.DuckDBPyRelation) -> Iterable[dict[str, Any]]:
    return (dict(zip(found.columns, row, strict=True)) for row in found.fetchall())


@pytest.mark.parametrize(
    ("by", "span"),
    [
        pytest.param(by, span, marks=[] if (place, number) in QUICK else [pytest.mark.slow])
        for place, by in enumerate(GROUPINGS)
        for number, span in enumerate(SPANS)
    ],
)
def test_usage_is_what_duckdb_says_of_the_lines(
    spark: SparkSession, log: Path, uri: str, by: tuple[str, ...], span: TimeRange
) -> None:
    """For all groupings, of all of the time and of times that begin and end within an hour or a minute."""
    report = read_usage(spark, uri, by, span).toArrow().to_pylist()
    found = {key_of(row, by): row for row in report}
    families = ("topic",) if "topic" in by else ("api",) if "api" in by else ("entity", "api")
    compared = 0
    for family in families:
        groups = expected(log, family, by, span)
        assert {key_of(row, by) for row in groups} <= set(found)
        for row in groups:
            figures = found[key_of(row, by)]
            for name, value in row.items():
                told = figure(figures, family, name)
                assert told == pytest.approx(value), (family, name)
                compared += 1
    assert compared > len(STAGES) * len(families)


def figure(figures: Row, family: str, name: str) -> Any:
    """Return what a report says of a sum of a family, or the bucket of a percentile."""
    if family == "api" and name in {"requests", "request_bytes", "response_bytes"}:
        name = "ended" if name == "requests" else f"replied_{name}"
    if name in {"throttle_ms", "blocked_ms", "mute_ms"}:
        seconds = {"throttle_ms": "delay_s", "blocked_ms": "blocked_s", "mute_ms": "memory_mute_s"}
        return figures[seconds[name]] * 1000
    if name.endswith(("_p50", "_p99")):
        return next(
            b for b in range(241) if 2 ** (b / 8) / 1000 >= figures[f"{name}_ms"] * (1 - 1e-9)
        )
    return figures[name]
