"""The job `ingest`: new files of a usage log become rows of the tables.

Rules:
- Every file is read once, into a staged copy. All later steps read that copy: a file that grows meanwhile changes
  nothing, and is read again by the next run.
- Only hours with new rows are written, joined with the rows that are there.
- Nothing in the tables changes before everything is written (`pipeline.ingest.staging`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from pipeline import tables
from pipeline.errors import JobFailedError, PipelineError
from pipeline.hadoop import SPARK_ERRORS, FileSystem, cause_of
from pipeline.ingest.quality import Reason
from pipeline.ingest.reading import list_files, new_files, stage
from pipeline.ingest.records import Records
from pipeline.ingest.sequences import (
    WRITER,
    clock_jumps,
    clustered,
    count_repeats,
    gaps,
    overlaps,
    ranges,
    without_repeats,
)
from pipeline.ingest.staging import Staging
from pipeline.ingest.summary import Summary, as_time
from pipeline.schema import FAMILIES
from pipeline.tables import PARTITIONS, table_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN: Final = 20
"""The most clock jumps and overlaps that are named."""


class Ingest:
    """One run from `usage_log` into `tables`, both URIs. `now_ms` is the present; rows may not be far after it."""

    def __init__(self, spark: SparkSession, usage_log: str, tables: str, now_ms: int) -> None:
        self._spark = spark
        self._usage_log = usage_log
        self._tables = tables.rstrip("/")
        self._now_ms = now_ms
        self._fs = FileSystem(spark, self._tables)
        self._staging = Staging(spark, self._tables)
        self._summary = Summary()
        self._refused: list[DataFrame] = []
        self._ranges: list[DataFrame] = []
        self._cached: list[DataFrame] = []

    def run(self) -> Summary:
        """Read what is new and return what was found.

        Raises PipelineError if the usage log has no files, and JobFailedError if the machine or the cluster fails; in
        both cases the tables are as they were, or the next run completes them.
        """
        try:
            self._staging.begin()
            self._run()
        except SPARK_ERRORS as error:
            self._staging.check()
            raise JobFailedError(
                f"ingest into {self._tables} failed: {cause_of(error)}. Run it again: nothing is lost or counted twice"
            ) from error
        finally:
            for each in self._cached:
                each.unpersist()
            with suppress(*SPARK_ERRORS):
                self._staging.discard()
        return self._summary

    def _run(self) -> None:
        summary = self._summary
        listed = list_files(self._spark, self._usage_log)
        known = self._maybe_table("files")
        files = listed.count()
        if not files:
            raise PipelineError(
                f"{self._usage_log}: no files FAMILY/dt=DAY/*.jsonl (or .gz, .zst) with rows are there"
            )
        in_layout = listed.where(sf.col("family").isNotNull())
        new = new_files(in_layout, known).collect()
        summary.files_ignored = files - in_layout.count()
        summary.files_known = files - summary.files_ignored - len(new)
        for family in FAMILIES:
            of_family = [row for row in new if row["family"] == family]
            if of_family:
                self._ingest(family, {row["path"]: row["size_bytes"] for row in of_family})
        read = [row for row in new if row["path"] not in summary.unreadable]
        if not read:
            self._report(self._maybe_table("sequences"))
            return
        records = Records(self._spark, self._tables, self._staging)
        records.write_files(read)
        empty = records.write_quarantine(read, self._refused)
        self._report(records.write_sequences(self._ranges))
        self._staging.commit(empty)

    def _ingest(self, family: str, files: dict[str, int]) -> None:
        """Write the new rows of a family, joined with the hours that they touch, into the staging folder."""
        staged = stage(
            self._spark, family, files, self._staging.uri(f"parsed/{family}"), self._now_ms
        )
        self._summary.unreadable |= staged.unreadable
        self._summary.files_read += len(staged.files)
        self._summary.bytes_read += sum(staged.files.values())
        if staged.rows is None:
            return
        self._count(family, staged.rows)
        self._refused.append(
            staged.rows.where(sf.col("reason").isNotNull()).withColumn("family", sf.lit(family))
        )
        good = staged.rows.where(sf.col("reason").isNull())
        touched = self._touched(family, good)
        if not touched:
            return
        rows = good.drop("reason", "line")
        present = self._present(family, touched)
        if present is not None:
            rows = rows.unionByName(present, allowMissingColumns=True)
        repeats = count_repeats(rows)
        if repeats:
            merged = without_repeats(rows, family).persist()
            self._cached.append(merged)
            conflicts = merged.where(sf.col("reason").isNotNull())
            self._refused.append(conflicts)
            count = conflicts.count()
            if count:
                self._summary.quarantine(Reason.CONFLICT, family, count)
            self._summary.duplicates += repeats - count
            rows = merged.where(sf.col("reason").isNull())
        self._summary.rows_added[family] -= repeats
        columns = (*FAMILIES[family].names, *PARTITIONS)
        written = self._staging.table(family)
        clustered(rows.select(*columns)).write.partitionBy(*PARTITIONS).parquet(written)
        found = self._read(written, FAMILIES[family])
        self._ranges.append(ranges(found).withColumn("family", sf.lit(family)))

    def _count(self, family: str, staged: DataFrame) -> None:
        summary = self._summary
        summary.lines[family] = summary.rows_added[family] = 0
        found = staged.groupBy("reason").agg(
            sf.count("*"), sf.min("ts_ms").alias("first_ms"), sf.max("ts_ms").alias("last_ms")
        )
        for reason, lines, first_ms, last_ms in found.collect():
            summary.lines[family] += lines
            if reason is None:
                summary.rows_added[family] = lines
                summary.see(first_ms, last_ms)
            else:
                summary.quarantine(reason, family, lines)

    def _touched(self, family: str, good: DataFrame) -> set[tuple[str, str]]:
        """Return day and hour of the new rows, and of rows in the table that may have the same key."""
        hours = good.select(*PARTITIONS).distinct()
        sequences = self._maybe_table("sequences")
        if sequences is not None:
            stretches = good.groupBy(*WRITER, sf.bitmap_bucket_number("seq").alias("stretch")).agg(
                sf.min("seq").alias("first_new"), sf.max("seq").alias("last_new")
            )
            same = sequences.where(sf.col("family") == family).join(
                sf.broadcast(stretches), list(WRITER)
            )
            overlapping = (sf.col("first_seq") <= sf.col("last_new")) & (
                sf.col("first_new") <= sf.col("last_seq")
            )
            hours = hours.union(same.where(overlapping).select(*PARTITIONS).distinct())
        return {(row["dt"], row["hour"]) for row in hours.collect()}

    def _present(self, family: str, touched: set[tuple[str, str]]) -> DataFrame | None:
        table = table_uri(self._tables, family)
        folders = [f"{table}/dt={dt}/hour={hour}" for dt, hour in sorted(touched)]
        there = [folder for folder in folders if self._fs.exists(folder)]
        return self._read(table, FAMILIES[family], there) if there else None

    def _report(self, sequences: DataFrame | None) -> None:
        """Note what is missing in the tables as a whole."""
        if sequences is None:
            return
        summary = self._summary
        for family, count, lost in (
            gaps(sequences).groupBy("family").agg(sf.count("*"), sf.sum("lost")).collect()
        ):
            summary.gaps += count
            summary.lost_rows[family] = lost
        summary.clock_jumps = [
            f"clock went back: {row['instance']} (boot {row['boot']}, {row['family']}) by {row['back_ms']:,} ms "
            f"at {as_time(row['at_ms'])}"
            for row in clock_jumps(sequences).orderBy("at_ms").take(_SHOWN)
        ]
        summary.overlaps = [
            f"two starts at once: {row['instance']}, boots {row['other_boot']} and {row['boot']}, "
            f"{as_time(row['first_ms'])} to {as_time(row['last_ms'])}"
            for row in overlaps(sequences).orderBy("first_ms").take(_SHOWN)
        ]

    def _maybe_table(self, name: str) -> DataFrame | None:
        return tables.maybe_read(self._spark, self._tables, name)

    def _read(self, table: str, schema: StructType, folders: list[str] | None = None) -> DataFrame:
        wide = StructType([*schema, *(StructField(name, StringType()) for name in PARTITIONS)])
        return (
            self._spark.read.schema(wide).option("basePath", table).parquet(*(folders or [table]))
        )
