"""The job `migrate`: Parquet tables of an older Sluice become tables of Delta Lake, once.

Rules:
- The old tables are read and stay as they are. What is written is the batch 0: that of no `ingest`.
- The first commit is a row of `files` that names the old tables, the last one is the row of `batches`. While the second
  is missing no `ingest` begins with the new tables, and another `migrate` goes on with them.
- Every append is a numbered transaction (`pipeline.delta`): one that was done is skipped. Families go by months: a run
  that died repeats one month at most.
- Files that the older Sluice has read are in the new `files`: they are not read again.
- A column that the old tables lack, because their Sluice did not have it, is null.
"""

from __future__ import annotations

import time
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from pipeline import delta
from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem
from pipeline.ingest.sequences import gaps, numbers, ranges, refused_numbers
from pipeline.inputs import literal
from pipeline.rollups import PARTS, ROLLUPS, rolled_up
from pipeline.schema import BATCHES, DATED, FAMILIES, FILES, PARTITIONS, QUARANTINE
from pipeline.tables import table_uri, with_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

APP: Final = "sluice.migrate"
BATCH: Final = 0
_DAYS_OF_COMMIT: Final = 31
_DAY: Final = "dt="
_MOVING: Final = "_ingest"


def migrate(spark: SparkSession, old: str, new: str) -> Iterator[str]:
    """Write the tables at `new` from those at `old`; yield a line about each as it ends.

    Raises PipelineError if there is nothing to migrate, or if something else is in `new`.
    """
    yield from _Migration(spark, old.rstrip("/"), new.rstrip("/")).lines()


class _Migration:
    def __init__(self, spark: SparkSession, old: str, new: str) -> None:
        self._spark = spark
        self._old = old
        self._new = new
        self._fs = FileSystem(spark, old)

    def lines(self) -> Iterator[str]:
        families = self._check()
        if self._is_done():
            yield f"{self._new}: {self._old} was migrated before; nothing to do"
            return
        self._append("files", self._marker(), 1)
        self._check_alone()
        counts = {}
        for family in families:
            for version, days in enumerate(self._months(family), 1):
                self._append(family, self._rows(family, days), version, PARTITIONS)
            counts[family] = self._written(family).count()
            yield f"{family}: {counts[family]:,} rows"
        rolled = {family: self._written(family) for family in families if family in PARTS}
        days = sorted({day for family in rolled for day in self._days(family)})
        for name, step_ms in ROLLUPS.items() if rolled else ():
            for version, month in enumerate(_chunks(days), 1):
                rows = {family: _of_days(each, month) for family, each in rolled.items()}
                steps = rolled_up(rows, step_ms).hint("rebalance", "dt")
                self._append(name, steps, version, ["dt"])
            yield f"{name}: {self._written(name).count():,} rows"
        self._append("quarantine", self._quarantine().coalesce(1), 1, ["dt"])
        there = [numbers(self._written(family), family) for family in families]
        there.append(refused_numbers(self._written("quarantine")))
        found = ranges(reduce(DataFrame.unionByName, there))
        self._append("sequences", found.coalesce(1), 1)
        self._append("files", self._files(), 2)
        yield f"files: {self._written('files').count() - 1:,} were read before"
        self._append("batches", self._batch(counts), 1)
        yield f"{self._new}: complete; run ingest, report and all others with it from now on"

    def _check(self) -> list[str]:
        """Return the families of the old tables. Raises PipelineError if these cannot be migrated."""
        if self._old == self._new:
            raise PipelineError(f"migrate {self._old}: expected another folder for the new tables")
        families = [name for name in FAMILIES if self._days(name)]
        is_new = any(
            self._fs.exists(f"{table_uri(self._old, name)}/_delta_log") for name in families
        )
        if is_new or not families:
            what = "tables of this version" if is_new else "no tables of an older Sluice"
            raise PipelineError(
                f"{self._old}: {what} are there; expected Parquet files FAMILY/dt=DAY/hour=HOUR/*.parquet"
            )
        if self._fs.names(f"{self._old}/{_MOVING}"):
            raise PipelineError(
                f"{self._old}/{_MOVING}: an ingest runs, or was broken off; "
                "end it with the version that began it, then migrate"
            )
        return families

    def _is_done(self) -> bool:
        """Return whether all is written. Raises PipelineError if the new tables have something else."""
        files, batches = (
            delta.maybe_read(self._spark, table_uri(self._new, name))
            for name in ("files", "batches")
        )
        if files is None:
            return False
        ours = files.where((sf.col("batch") == BATCH) & (sf.col("path") == self._old))
        if ours.isEmpty():
            raise PipelineError(
                f"{self._new}: tables that were not migrated from {self._old} are there; expected a new folder"
            )
        return batches is not None and not batches.where(sf.col("batch") == BATCH).isEmpty()

    def _check_alone(self) -> None:
        files = self._table("files")
        if not files.where(sf.col("batch") > BATCH).isEmpty():
            raise PipelineError(
                f"{self._new}: an ingest has begun to write there; expected a new folder"
            )

    def _days(self, family: str) -> list[str]:
        names = self._fs.names(table_uri(self._old, family))
        return [name.removeprefix(_DAY) for name in names if name.startswith(_DAY)]

    def _months(self, family: str) -> Iterator[Sequence[str]]:
        return _chunks(self._days(family))

    def _rows(self, family: str, days: Sequence[str]) -> DataFrame:
        uri = table_uri(self._old, family)
        found = self._spark.read.option("mergeSchema", "true").parquet(literal(uri))
        rows = with_columns(uri, found, StructType([*FAMILIES[family], *DATED]))
        client = [name for name in ("user", "client_id", "topic") if name in rows.columns]
        return (
            _of_days(rows, days)
            .hint("rebalance", *PARTITIONS)
            .sortWithinPartitions(*PARTITIONS, *client, "instance", "ts_ms", "seq")
        )

    def _quarantine(self) -> DataFrame:
        old = self._record("quarantine")
        if old is None:
            return self._spark.createDataFrame([], QUARANTINE).drop("batch")
        return old.select("reason", "family", "file", "line", sf.col("dt").cast("date"))

    def _files(self) -> DataFrame:
        old = self._record("files")
        if old is None:
            return self._spark.createDataFrame([], FILES).drop("batch")
        names = ("path", "size_bytes", "modified_ms")
        return old.select(*names, sf.lit("migrate").alias("run")).coalesce(1)

    def _record(self, name: str) -> DataFrame | None:
        uri = table_uri(self._old, name)
        found = self._fs.exists(uri)
        return self._spark.read.parquet(literal(uri)) if found else None

    def _marker(self) -> DataFrame:
        row = (self._old, 0, 0, BATCH, "migrate")
        return self._spark.createDataFrame([row], FILES).drop("batch").coalesce(1)

    def _batch(self, counts: dict[str, int]) -> DataFrame:
        lost, count = {}, {}
        by_family = gaps(self._written("sequences")).groupBy("family")
        for family, stretches, rows in by_family.agg(sf.count("*"), sf.sum("lost")).collect():
            lost[family], count[family] = rows, stretches
        figures = {
            "batch": BATCH,
            "finished_ms": time.time_ns() // 1_000_000,
            "lines": counts,
            "rows_added": counts,
            "lost_rows": lost,
            "gaps": count,
            "abandoned": False,
        }
        row = tuple(figures.get(name) for name in BATCHES.names)
        return self._spark.createDataFrame([row], BATCHES).drop("batch").coalesce(1)

    def _written(self, name: str) -> DataFrame:
        return self._table(name).where(sf.col("batch") == BATCH)

    def _table(self, name: str) -> DataFrame:
        found = delta.maybe_read(self._spark, table_uri(self._new, name))
        assert found is not None  # noqa: S101 - it has been written
        return found

    def _append(
        self, name: str, rows: DataFrame, version: int, partition_by: Sequence[str] = ()
    ) -> None:
        numbered = rows.withColumn("batch", sf.lit(BATCH).cast("bigint"))
        uri = table_uri(self._new, name)
        delta.append(numbered, uri, app=APP, version=version, partition_by=partition_by)


def _chunks(days: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(days), _DAYS_OF_COMMIT):
        yield days[first : first + _DAYS_OF_COMMIT]


def _of_days(rows: DataFrame, days: Sequence[str]) -> DataFrame:
    return rows.where(sf.col("dt").isin(*(sf.lit(day).cast("date") for day in days)))
