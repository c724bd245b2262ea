"""Tables of families and records as `ingest` writes them, for tests that need rows and not an ingest."""

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline import delta
from pipeline.schema import BATCHES, PARTITIONS, QUARANTINE
from pipeline.tables import table_uri
from tests.support.telemetry.usage_rows import Row, frame

HOUR_MS = 3_600_000


def write_rows(
    spark: SparkSession, folder: Path, family: str, rows: Iterable[Row], batch: int = 1
) -> None:
    """Add rows to the table of a family below `folder`; `dt` and `hour` are those of `ts_ms`."""
    write_frame(frame(spark, family, rows), folder, family, batch)


def write_frame(rows: DataFrame, folder: Path, family: str, batch: int = 1) -> None:
    """Add rows of a family, which have its columns and maybe more."""
    at = sf.timestamp_millis("ts_ms")
    dated = rows.withColumns(
        {"dt": sf.to_date(at), "hour": sf.hour(at), "batch": sf.lit(batch).cast("bigint")}
    )
    write_table(dated, folder, family, batch, PARTITIONS)


def write_table(
    rows: DataFrame, folder: Path, name: str, batch: int = 1, partition_by: Iterable[str] = ()
) -> None:
    """Add rows to a table of any name, in one file of each partition."""
    uri = table_uri(str(folder), name)
    delta.append(
        rows.coalesce(1), uri, app="tests", version=batch, partition_by=tuple(partition_by)
    )


def write_quality(
    spark: SparkSession,
    folder: Path,
    *,
    lost: Mapping[str, int],
    lines: Iterable[tuple[str, str]] = (),
) -> None:
    """Write a complete batch after which rows of families are lost, a gap each, and lines (reason, family) refused."""
    figures = {
        "batch": 1,
        "lost_rows": dict(lost),
        "gaps": dict.fromkeys(lost, 1),
        "abandoned": False,
    }
    row = tuple(figures.get(name) for name in BATCHES.names)
    write_table(spark.createDataFrame([row], BATCHES), folder, "batches")
    refused = [(reason, family, "f", "{", date(2025, 11, 21), 1) for reason, family in lines]
    write_table(spark.createDataFrame(refused, QUARANTINE), folder, "quarantine", 1, ["dt"])
