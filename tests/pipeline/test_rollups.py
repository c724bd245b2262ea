"""Rollups: each figure of a step is the sum of its rows, whatever the rows and however often they are rolled up."""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.functions import hour, timestamp_millis, to_date

from pipeline import delta, rollups
from pipeline.rollups import (
    HOUR_MS,
    MINUTE_MS,
    PARTS,
    ROLLUP,
    ROLLUPS,
    coarser,
    divided,
    rolled_up,
    unrolled,
)
from pipeline.tables import TimeRange
from tests.support.telemetry.usage_rows import START_MS, Row, frame, usage_row

FAMILIES: Final = tuple(PARTS)
NAMES: Final = {
    **dict.fromkeys(("user", "client_id", "topic", "api"), (None, "", "a", "b")),
    "instance": ("pod-1", "pod-2"),
    "api_key": (0, 1),
    "enforcement": (None, "entity"),
    "quota_entity": (None, "user=a"),
    "quota_rate": (None, 2.5),
}


def made(draw: random.Random, family: str, count: int) -> list[Row]:
    """Return rows in three hours, of two days; some figures are missing, and most histograms are empty."""
    part = PARTS[family]
    rows = []
    for _ in range(count):
        row = usage_row(family, ts_ms=START_MS + 22 * HOUR_MS + draw.randrange(3 * 3600) * 1000)
        row |= {name: draw.choice(NAMES[name]) for name in part.names}
        for name in (*part.sums, *part.maxima):
            row[name] = draw.choice((None, 0, 1, draw.randrange(1 << 31)))
        for stage in part.stages:
            held = sorted(draw.sample(range(240), draw.choice((0, 0, 1, 4))))
            row[f"{stage}_i"], row[f"{stage}_n"] = held, [draw.randrange(1, 1 << 40) for _ in held]
            if draw.random() < 0.1:
                row[f"{stage}_i"] = row[f"{stage}_n"] = None
        if family == "api":
            row["delay_i"] = row["delay_n"] = None  # of an older Sluice
            if draw.random() < 0.5:
                row["delay_i"], row["delay_n"] = row["throttle_i"], row["throttle_n"]
                row["throttle_i"], row["throttle_n"] = [5], [1 << 41]
        rows.append(row)
    return rows


def expected(family: str, rows: Iterable[Row], step_ms: int) -> dict[tuple[Any, ...], Row]:
    """Return the steps, added up row by row."""
    part = PARTS[family]
    steps: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["ts_ms"] // step_ms * step_ms, *(row[name] for name in part.names))
        steps.setdefault(key, []).append(row)
    found = {}
    for key, of_step in steps.items():

        def known(name: str, of_step: list[Row] = of_step) -> list[int]:
            return [row[name] for row in of_step if row[name] is not None]

        figures: Row = {name: sum(known(name)) if known(name) else None for name in part.sums}
        figures |= {name: max(known(name), default=None) for name in part.maxima}
        figures |= {"rows": len(of_step), "first_ms": min(known("ts_ms"))}
        figures["end_ms"] = max(known("ts_ms")) + 1000
        for stage in part.stages:
            times: Counter[int] = Counter()
            for row in of_step:
                kind = "delay" if stage == "throttle" and row["delay_i"] is not None else stage
                held, counts = row[f"{kind}_i"] or (), row[f"{kind}_n"] or ()
                times.update(dict(zip(held, counts, strict=True)))
            figures[f"{stage}_i"], figures[f"{stage}_n"] = (
                sorted(times),
                [times[b] for b in sorted(times)],
            )
        found[key] = figures
    return found


def found_in(rollup: DataFrame, family: str) -> dict[tuple[Any, ...], Row]:
    part = PARTS[family]
    rows = [row.asDict() for row in rollup.where(f"family = '{family}'").collect()]
    keys = [(row["ts_ms"], *(row[name] for name in part.names)) for row in rows]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows, strict=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_step_is_the_sum_of_its_rows(spark: SparkSession, seed: int) -> None:
    """By minute, by hour, and by hour from minutes; what a family lacks is null."""
    draw = random.Random(seed)
    rows = {family: made(draw, family, 200) for family in FAMILIES}
    frames = {family: frame(spark, family, rows[family]) for family in FAMILIES}
    minutes = rolled_up(frames, MINUTE_MS).persist()
    for step_ms, rollup in (
        (MINUTE_MS, minutes),
        (HOUR_MS, rolled_up(frames, HOUR_MS)),
        (HOUR_MS, coarser(minutes, HOUR_MS)),
    ):
        assert rollup.schema.simpleString() == ROLLUP.simpleString()
        kept = rollup.persist()
        for family in FAMILIES:
            found = found_in(kept, family)
            sums = expected(family, rows[family], step_ms)
            assert {
                key: {name: row[name] for name in sums[key]} for key, row in found.items()
            } == sums
            own = {*next(iter(sums.values())), *PARTS[family].names, "ts_ms", "dt", "family"}
            for row in found.values():
                assert (
                    row["dt"]
                    == (date(2025, 11, 21), date(2025, 11, 22))[
                        row["ts_ms"] >= START_MS + 24 * HOUR_MS
                    ]
                )
                assert {row[name] for name in row.keys() - own} <= {None}
        kept.unpersist()


def test_a_row_of_the_usage_log_is_a_partial_sum(spark: SparkSession) -> None:
    """Rows with the columns of a rollup, some of them rolled up already, are rolled up as the rows are."""
    rows = made(random.Random(3), "api", 60)
    raw = frame(spark, "api", rows[:30])
    minutes = rolled_up({"api": frame(spark, "api", rows[30:])}, MINUTE_MS)
    mixed = unrolled("api", raw).unionAll(minutes)
    found = found_in(coarser(mixed, HOUR_MS), "api")
    sums = expected("api", rows, HOUR_MS)
    assert {key: {name: row[name] for name in sums[key]} for key, row in found.items()} == sums


@pytest.mark.parametrize(
    ("span", "parts"),
    [
        (TimeRange(), [(HOUR_MS, TimeRange())]),
        (TimeRange(HOUR_MS, 3 * HOUR_MS), [(HOUR_MS, TimeRange(HOUR_MS, 3 * HOUR_MS))]),
        (TimeRange(1000, 2000), [(None, TimeRange(1000, 2000))]),
        (
            TimeRange(HOUR_MS - 61_000, HOUR_MS + 61_000),
            [
                (MINUTE_MS, TimeRange(HOUR_MS - 60_000, HOUR_MS + 60_000)),
                (None, TimeRange(HOUR_MS - 61_000, HOUR_MS - 60_000)),
                (None, TimeRange(HOUR_MS + 60_000, HOUR_MS + 61_000)),
            ],
        ),
        (
            TimeRange(None, 2 * HOUR_MS + MINUTE_MS),
            [
                (HOUR_MS, TimeRange(None, 2 * HOUR_MS)),
                (MINUTE_MS, TimeRange(2 * HOUR_MS, 2 * HOUR_MS + MINUTE_MS)),
            ],
        ),
    ],
)
def test_a_time_is_divided_into_the_longest_steps(
    span: TimeRange, parts: list[tuple[int | None, TimeRange]]
) -> None:
    """Whole hours, at its ends whole minutes, at their ends seconds: nothing twice, and nothing left out."""
    assert list(divided(span, (HOUR_MS, MINUTE_MS))) == parts
    assert list(divided(span, ())) == [(None, span)]


def test_any_time_has_the_figures_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """From tables with rollups and without: what is read for a time adds up to the rows in it."""
    rows = made(random.Random(4), "entity", 150)
    at = timestamp_millis("ts_ms")
    raw = frame(spark, "entity", rows).withColumns({"dt": to_date(at), "hour": hour(at)})
    uri = str(tmp_path)
    delta.append(raw, f"{uri}/entity", app="test", version=1, partition_by=("dt", "hour"))
    first_ms = START_MS + 22 * HOUR_MS
    spans = (
        TimeRange(),
        TimeRange(first_ms + 65_000, first_ms + 2 * HOUR_MS + 59_000),
        TimeRange(None, first_ms + HOUR_MS + MINUTE_MS),
        TimeRange(first_ms + 125_000, first_ms + 130_000),
    )
    for with_rollups in (False, True):
        if with_rollups:
            for name, step_ms in ROLLUPS.items():
                made_rollup = rolled_up({"entity": raw}, step_ms)
                delta.append(made_rollup, f"{uri}/{name}", app="test", version=1)
        for span in spans:
            read = rollups.read(spark, uri, "entity", span, HOUR_MS)
            assert read is not None
            ((count, requests),) = read.agg(sf.sum("rows"), sf.sum("requests")).collect()
            of_span = [row for row in rows if span_has(span, row["ts_ms"])]
            known = [row["requests"] for row in of_span if row["requests"] is not None]
            assert (count or 0, requests or 0) == (len(of_span), sum(known))
    assert rollups.read(spark, uri, "api", TimeRange(), HOUR_MS) is None
    whole = rollups.read(spark, uri, "entity", TimeRange(), HOUR_MS)
    assert whole is not None
    assert whole.count() == rolled_up({"entity": raw}, HOUR_MS).count()


def span_has(span: TimeRange, ts_ms: int) -> bool:
    return (span.first_ms or 0) <= ts_ms < (span.end_ms or 1 << 60)
