"""Sums by the minute: of a batch, with the same function as of a stream."""

from datetime import date, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.stream.queries import by_minute
from tests.support.telemetry.usage_rows import START_MS, frame, numbered, usage_row


def test_a_row_has_the_sums_of_a_client_in_a_minute(spark: SparkSession) -> None:
    """Seconds of another minute, instance or client are in other rows; a stall is not more than everything."""
    one = {"client_id": "a", "connections": 1}
    stalled = one | {"instance": "pod-2", "blocked_ms": 9999}
    rows = [
        one | {"ts_ms": START_MS, "requests": 3, "charged": 2, "connections": 2, "blocked_ms": 500},
        one | {"ts_ms": START_MS + 59_000, "requests": 4, "blocked_ms": 1000},
        one | {"ts_ms": START_MS + 60_000, "requests": 5, "connections": 0},
        stalled | {"ts_ms": START_MS, "requests": 6},
    ]
    entity = frame(
        spark, "entity", numbered(usage_row("entity", **row) for row in rows)
    ).withColumn("ts", sf.timestamp_millis("ts_ms"))
    found = {
        (row["instance"], row["minute"].minute): row.asDict()
        for row in by_minute(entity).withColumn("minute", sf.to_timestamp_ntz("minute")).collect()
    }

    first = found["pod-1", 0]
    assert first["minute"] == datetime(2025, 11, 21)  # noqa: DTZ001 - read without a zone
    assert first["dt"] == date(2025, 11, 21)
    assert (first["seconds"], first["requests"], first["charged"]) == (2, 7, 2)
    assert (first["connection_ms"], first["blocked_ms"], first["blocked_share"]) == (
        3000,
        1500,
        0.5,
    )
    assert (found["pod-1", 1]["requests"], found["pod-1", 1]["blocked_share"]) == (5, None)
    assert (found["pod-2", 0]["requests"], found["pod-2", 0]["blocked_share"]) == (6, 1.0)
