"""The made-up tables of the benchmark: what the jobs may rely on when they are measured with them."""

from pathlib import Path

from pyspark.sql import SparkSession

from bench.pipeline.made_tables import make_tables, make_usage_log, rows_in
from pipeline import tables
from pipeline.schema import ENTITY

ROWS = 60_000


def test_the_tables_are_consistent_and_the_same_in_every_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Sums of both families agree, one client in ten is throttled, bursts pause, and two runs make the same rows."""
    folder = make_tables(spark, tmp_path / "a", ROWS)
    entity, api = (tables.read(spark, str(folder), family) for family in ("entity", "api"))
    (told,) = entity.selectExpr(
        "count(*) as rows",
        "count_if(requests != charged + exempt or charged < 1) as wrong",
        "count(distinct instance, seq) as keys",
        "count(distinct user, client_id) as clients",
        "count(distinct client_id) filter (where throttled > 0) as throttled",
        "count_if(blocked_ms > connections * 1000) as too_long",
        "sum(charged) as charged",
    ).collect()
    (answered,) = (
        api.where("api in ('Produce', 'Fetch')")
        .selectExpr(
            "sum(requests) as requests",
            "count_if(aggregate(upstream_n, 0L, (a, n) -> a + n) != requests) as wrong",
            "count_if(size(upstream_i) != size(upstream_n)) as uneven",
        )
        .collect()
    )
    active = {
        row["bursty"]: row["share"]
        for row in entity.groupBy("client_id")
        .count()
        .selectExpr("int(substring(client_id, 5)) % 2 as bursty", "count")
        .groupBy("bursty")
        .agg({"count": "avg"})
        .toDF("bursty", "share")
        .collect()
    }

    assert abs(told["rows"] - ROWS) < ROWS / 10
    assert rows_in(folder) == {"entity": told["rows"], "api": api.count()}
    assert (told["wrong"], told["too_long"]) == (0, 0)
    assert told["keys"] == told["rows"]
    assert 390 <= told["clients"] <= 400
    assert 20 <= told["throttled"] <= 40
    assert active[1] < 0.7 * active[0]
    assert (answered["wrong"], answered["uneven"]) == (0, 0)
    assert answered["requests"] == told["charged"]
    again = tables.read(spark, str(make_tables(spark, tmp_path / "b", ROWS)), "entity")
    assert entity.exceptAll(again).isEmpty()
    assert again.exceptAll(entity).isEmpty()


def test_the_usage_log_has_the_columns_of_its_family_and_no_gap(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`seq` counts from 1 in each instance, so `ingest` finds no lost row in it."""
    folder = make_usage_log(spark, tmp_path, ROWS)
    lines = spark.read.schema(ENTITY).json(f"{folder}/entity/*")
    found = lines.groupBy("instance", "boot").agg({"seq": "max", "*": "count"})

    assert {field.name for field in spark.read.json(f"{folder}/entity/*").schema} == set(
        ENTITY.names
    )
    assert found.where("`max(seq)` != `count(1)`").isEmpty()
    assert found.count() == 4
