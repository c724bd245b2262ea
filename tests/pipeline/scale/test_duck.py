"""DuckDB, where it is installed, gives the figures of `usage`: the two are compared over the same work."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.pipeline.made_tables import make_tables
from pipeline.time_range import TimeRange
from pipeline.usage import read_usage

pytest.importorskip("duckdb", reason="it is installed for `make bench-pipeline` only")
from bench.pipeline import duck


def test_sums_and_percentiles_are_those_of_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """Requests and throttles of every user, and the percentiles of how long the broker took."""
    tables = str(make_tables(spark, tmp_path / "tables", 20_000))
    rows = read_usage(spark, tables, ["user"], TimeRange()).toArrow().to_pylist()
    connection = duck.connect(tables, 2)
    entity, _, waits = (connection.execute(query).fetchall() for query in duck.QUERIES["usage"])
    upstream = {row[0]: row[3:] for row in waits if row[1] == "upstream"}

    assert len(rows) > 150
    assert {row["user"]: (row["requests"], row["throttled"]) for row in rows} == {
        user: (sums[0], sums[7]) for user, *sums in entity
    }
    for row in rows:
        p50_us, p99_us = upstream[row["user"]]
        assert row["upstream_p50_ms"] == pytest.approx(p50_us / 1000)
        assert row["upstream_p99_ms"] == pytest.approx(p99_us / 1000)
