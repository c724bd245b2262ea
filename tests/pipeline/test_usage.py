"""The usage report: each figure is the sum of its family's rows, for every grouping."""

import itertools
from collections import defaultdict
from collections.abc import Iterable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import hour, timestamp_millis, to_date

from pipeline.errors import PipelineError
from pipeline.rollups import unrolled
from pipeline.tables import TimeRange
from pipeline.usage import families_for, sorted_by, usage
from proxy.core.stats import histogram
from tests.support.telemetry.usage_rows import START_MS, Row, frame, numbered, usage_row

HOUR_MS = 3_600_000


def made(family: str) -> list[Row]:
    """Return rows of two users with two client ids on two instances, in two hours of each of two days."""
    names = itertools.product(("alice", ""), ("c1", "c2"), ("pod-1", "pod-2"), (0, 1, 24, 25))
    rows = []
    for place, (user, client_id, instance, at_h) in enumerate(names):
        row = usage_row(family, user=user, instance=instance, ts_ms=START_MS + at_h * HOUR_MS)
        if "client_id" in row:
            row["client_id"] = client_id
        if "topic" in row:
            row["topic"] = f"t-{client_id}"
        if "api" in row:
            row["api"] = ("Produce", "Fetch")[place % 2]
        for shift, (name, value) in enumerate(row.items()):
            if value == 0 and name not in {"seq", "api_key"}:
                row[name] = place * 100 + shift
            elif name.startswith("upstream_"):
                row[name] = [80 + place % 3, 100] if name.endswith("i") else [place + 1, 2]
            elif name.startswith("throttle_") and isinstance(value, list) and place % 4 == 0:
                row[name] = [110] if name.endswith("i") else [3]
            elif name.startswith("delay_"):
                if place % 8 == 0:
                    row[name] = None  # the row of an older Sluice
                elif place % 8 in {1, 4}:  # with pauses
                    row[name] = [90, 120] if name.endswith("i") else [5, place]
        rows.append(row)
    return numbered(rows)


def table(spark: SparkSession, family: str, rows: Iterable[Row]) -> DataFrame:
    """Return the rows as they are read from a table."""
    at = timestamp_millis("ts_ms")
    return frame(spark, family, rows).withColumns({"dt": to_date(at), "hour": hour(at)})


def partial_sums(spark: SparkSession, family: str, rows: Iterable[Row]) -> DataFrame:
    return unrolled(family, frame(spark, family, rows))


def key(row: Row, by: Iterable[str]) -> tuple[object, ...]:
    at_h = (row["ts_ms"] - START_MS) // HOUR_MS
    day = ("2025-11-21", "2025-11-22")[at_h // 24]
    times = {"day": day, "hour": f"{day} {at_h % 24:02}:00"}
    return tuple(times.get(name) or row[name] for name in by)


def sums(rows: Iterable[Row], by: Iterable[str], column: str) -> dict[tuple[object, ...], int]:
    found: dict[tuple[object, ...], int] = defaultdict(int)
    for row in rows:
        found[key(row, by)] += row[column]
    return found


@pytest.mark.parametrize("by", [("client_id", "instance", "day"), ("user", "hour"), ()])
def test_figures_of_clients_come_from_entity_and_waits_from_api(
    spark: SparkSession, by: tuple[str, ...]
) -> None:
    """Both families have a row for each client and second; no sum counts one of them for the other."""
    entity, api = made("entity"), made("api")
    report = usage(
        {"entity": partial_sums(spark, "entity", entity), "api": partial_sums(spark, "api", api)},
        by,
    )
    found = {key_of(row, by): row for row in report.toArrow().to_pylist()}

    for column in ("requests", "charged", "exempt", "request_bytes", "response_bytes", "throttled"):
        assert {each: row[column] for each, row in found.items()} == sums(entity, by, column)
    for column, of_rows in {
        "ended": "requests",
        "replied": "replied",
        "expired": "expired",
    }.items():
        assert {each: row[column] for each, row in found.items()} == sums(api, by, of_rows)
    delays = sums(entity, by, "throttle_ms")
    for each, row in found.items():
        assert row["delay_s"] == pytest.approx(delays[each] / 1000)
        assert row["throttled_share"] == pytest.approx(row["throttled"] / row["charged"])
        check_waits(row, [one for one in api if key(one, by) == each])


def key_of(row: Row, by: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(row[name] for name in by)


def check_waits(figures: Row, rows: list[Row]) -> None:
    """The waits are those of the telemetry's own histogram of the same counts; of throttles with the pauses."""
    totals = {}
    for stage in ("upstream", "throttle", "purgatory"):
        counts = [0] * histogram.BUCKETS
        for row in rows:
            told = "delay" if stage == "throttle" and row["delay_i"] is not None else stage
            for bucket, count in zip(row[f"{told}_i"], row[f"{told}_n"], strict=True):
                counts[bucket] += count
        totals[stage] = histogram.total_us(counts) / 1e6
        if any(counts):
            assert figures[f"{stage}_waited"] == sum(counts)
            assert figures[f"{stage}_s"] == pytest.approx(totals[stage])
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                expected = histogram.quantile_us(counts, share) / 1000
                assert figures[f"{stage}_{name}_ms"] == pytest.approx(expected)
        else:
            assert figures[f"{stage}_waited"] is None
    for stage, total_s in totals.items():
        share = total_s / sum(totals.values())
        assert figures[f"{stage}_time_share"] == pytest.approx(share)


def test_by_api_and_by_topic_only_their_own_family_has_figures(spark: SparkSession) -> None:
    """How requests ended by API; records and bytes by topic, most bytes first."""
    api, topic = made("api"), made("topic")
    by_api = usage({"api": partial_sums(spark, "api", api)}, ["api", "user"]).toArrow().to_pylist()
    by = ("api", "user")
    assert {key_of(row, by): row["ended"] for row in by_api} == sums(api, by, "requests")
    assert {key_of(row, by): row["replied_request_bytes"] for row in by_api} == sums(
        api, by, "request_bytes"
    )
    assert "requests" not in by_api[0]

    report = sorted_by(usage({"topic": partial_sums(spark, "topic", topic)}, ["topic"]), ["topic"])
    by_topic = report.toArrow().to_pylist()
    for column in ("produce_records", "fetch_bytes", "fetch_replies"):
        found = {(row["topic"],): row[column] for row in by_topic}
        assert found == sums(topic, ("topic",), column)
    totals = [row["produce_bytes"] + row["fetch_bytes"] for row in by_topic]
    assert totals == sorted(totals, reverse=True)


def test_a_span_takes_the_rows_of_its_seconds(spark: SparkSession) -> None:
    """The first second is in it, the end is not."""
    rows = table(spark, "entity", made("entity"))
    assert TimeRange().of(rows).count() == 32
    assert TimeRange(START_MS + HOUR_MS).of(rows).count() == 24
    assert TimeRange(START_MS, START_MS + 24 * HOUR_MS).of(rows).count() == 16
    assert TimeRange(START_MS + 1, START_MS + HOUR_MS).of(rows).count() == 0


def test_columns_that_no_family_has_together_are_refused() -> None:
    """The error names them."""
    assert families_for(("user", "hour")) == ("entity", "api")
    for by, said in {
        ("user", "colour"): "'colour' is not one of user, client_id",
        ("user", "user"): "each once",
        ("topic", "client_id"): "family topic have no client_id",
        ("api", "topic"): "family topic have no api",
    }.items():
        with pytest.raises(PipelineError, match=said):
            families_for(by)


def test_a_client_in_one_family_only_has_a_line(spark: SparkSession) -> None:
    """An arrival in the last second of a log has no end in it; an unknown column to sort by is named."""
    entity = partial_sums(spark, "entity", numbered([usage_row("entity", user="a", requests=3)]))
    api = partial_sums(spark, "api", numbered([usage_row("api", user="b", requests=2)]))
    report = usage({"entity": entity, "api": api}, ["user"])
    rows = sorted_by(report, ["user"]).select("user", "requests", "ended").collect()
    assert [tuple(row) for row in rows] == [("a", 3, None), ("b", None, 2)]
    with pytest.raises(PipelineError, match="--sort colour: not one of user, requests"):
        sorted_by(report, ["user"], "colour")
