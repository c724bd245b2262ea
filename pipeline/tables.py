"""Reads the tables that `ingest` writes: a table of Delta Lake for each family, by day and hour.

Rules:
- A table has the columns of its family (`pipeline.schema`) and the partition columns `dt` and `hour`.
- Columns that a later Sluice has added are left out. A column that the table of an older one lacks is null. One with
  another type is refused with its name.
- Of a batch that `ingest` has not completed no row is read. So all tables are of one state, also while it writes them.
- Every job prints one line about rows that are missing (`MissingRows`), because its figures lack them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from pipeline import delta
from pipeline.errors import PipelineError
from pipeline.inputs import why_no_rows
from pipeline.schema import DATED, FAMILIES, PARTITIONS, PIPELINE_CLIENT, RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession


def table_uri(tables: str, name: str) -> str:
    """Return the URI of a table below the URI of all tables."""
    return f"{tables.rstrip('/')}/{name}"


def read(spark: SparkSession, tables: str, family: str) -> DataFrame:
    """Return the rows of a family. Raises PipelineError if there are none, or if their columns do not fit."""
    found = maybe_read(spark, tables, family)
    if found is None or found.isEmpty():
        raise PipelineError(why_no_rows(spark, tables, family))
    return found if family == "capture" else of_clients(found)


def of_clients(rows: DataFrame) -> DataFrame:
    """Return the rows without those of the pipeline's own reading through Sluice, which are nobody's usage."""
    if "client_id" not in rows.columns:
        return rows
    return rows.where(~sf.col("client_id").eqNullSafe(sf.lit(PIPELINE_CLIENT)))


def maybe_read(spark: SparkSession, tables: str, name: str) -> DataFrame | None:
    """Return the table of this name; None if it does not exist. Raises PipelineError as `read` does."""
    uri = table_uri(tables, name)
    found = delta.maybe_read(spark, uri)
    if found is None:
        return None
    if "batch" in found.columns and name not in ("files", "batches"):
        complete = last_batch(spark, tables)
        found = found if complete is None else found.where(sf.col("batch") <= complete)
    if name in RECORDS:
        return with_columns(uri, found, RECORDS[name])
    if name in FAMILIES:
        return with_columns(uri, found, StructType([*FAMILIES[name], *DATED]))
    return found


def last_batch(spark: SparkSession, tables: str) -> int | None:
    """Return the number of the last batch that `ingest` has completed; None if it has none."""
    batches = delta.maybe_read(spark, table_uri(tables, "batches"))
    found = None if batches is None else batches.agg(sf.max("batch")).first()
    return None if found is None else found[0]


def first_kept_day(spark: SparkSession, tables: str) -> date | None:
    """Return the first day that `maintain` keeps: rows of earlier ones were deleted. None if it keeps all."""
    kept = delta.maybe_read(spark, table_uri(tables, "retention"))
    found = None if kept is None else kept.agg(sf.max("first_day")).first()
    return None if found is None else found[0]


def with_columns(uri: str, found: DataFrame, expected: StructType) -> DataFrame:
    """Return the columns that are expected: null where a table of an older Sluice lacks one.

    Raises PipelineError if a column has another type.
    """
    there = {field.name: field.dataType.simpleString() for field in found.schema}
    for field in expected:
        kind = field.dataType.simpleString()
        if there.get(field.name, kind) != kind:
            raise PipelineError(
                f"{uri}: expected a column {field.name!r} of type {kind}, "
                f"the table has {there[field.name]}. Was it written by another version of Sluice?"
            )
    return found.select(
        *(
            sf.col(field.name)
            if field.name in there
            else sf.lit(None).cast(field.dataType).alias(field.name)
            for field in expected
        )
    )


class TimeRange(NamedTuple):
    """Rows from `first_ms` to before `end_ms`; None is open."""

    first_ms: int | None = None
    end_ms: int | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the span, of a table with its columns `ts_ms` and `dt`.

        Folders of other days, and of other hours if there is a column `hour`, are not read.
        """
        ts_ms, dt, hour = (sf.col(name) for name in ("ts_ms", *PARTITIONS))
        by_hour = "hour" in rows.columns
        if self.first_ms is not None:
            first = _time(self.first_ms)
            rows = rows.where((ts_ms >= self.first_ms) & (dt >= first.date()))
            rows = rows.where((dt > first.date()) | (hour >= first.hour)) if by_hour else rows
        if self.end_ms is not None:
            last = _time(self.end_ms - 1)
            rows = rows.where((ts_ms < self.end_ms) & (dt <= last.date()))
            rows = rows.where((dt < last.date()) | (hour <= last.hour)) if by_hour else rows
        return rows


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


class MissingRows(NamedTuple):
    """Rows that are missing in all time, and lines in quarantine by reason, of the families of a job."""

    lost: int
    gaps: int
    quarantined: Mapping[str, int]

    @property
    def line(self) -> str | None:
        """Return a line for a person; None if nothing is missing."""
        parts = []
        if self.lost:
            parts.append(f"{self.lost:,} rows lost in {self.gaps:,} gaps of seq")
        if self.quarantined:
            each = ", ".join(
                f"{reason} {count:,}" for reason, count in sorted(self.quarantined.items())
            )
            parts.append(f"{sum(self.quarantined.values()):,} lines in quarantine ({each})")
        return f"data quality: {'; '.join(parts)}" if parts else None


def read_missing_rows(spark: SparkSession, uri: str, families: Sequence[str]) -> MissingRows:
    """Return the quality of these families, from the last row of `batches` and from `quarantine`."""
    batches = maybe_read(spark, uri, "batches")
    last = None if batches is None else batches.orderBy(sf.desc("batch")).first()
    lost, gaps = (
        sum((last[name] or {}).get(family, 0) for family in families) if last else 0
        for name in ("lost_rows", "gaps")
    )
    quarantine = maybe_read(spark, uri, "quarantine")
    reasons: dict[str, int] = {}
    if quarantine is not None:
        refused = quarantine.where(sf.col("family").isin(*families))
        reasons = {str(row[0]): int(row[1]) for row in refused.groupBy("reason").count().collect()}
    return MissingRows(lost, gaps, reasons)
