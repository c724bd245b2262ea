"""The job `ingest`: new files of a usage log become rows of the tables.

Rules:
- Files are parsed into a copy, then claimed as a batch (`pipeline.ingest.batches`), then added to the tables. From the
  claim on all that a step adds follows from the copy and the tables before the batch. So each step may be done again,
  by this run or another one, at the same time or later: a table takes the rows of a batch once.
- Every table that a batch may have rows for gets a commit, also an empty one. So a run that is late finds all taken.
- A batch whose copy is gone is abandoned: what is in the tables stays, and its files are read again.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from pipeline import delta, tables
from pipeline.errors import JobFailedError, PipelineError
from pipeline.hadoop import SPARK_ERRORS, FileSystem, cause_of
from pipeline.ingest.batches import Batch, Batches
from pipeline.ingest.reading import day_of, family_of, list_files, parse, read_copy
from pipeline.ingest.rows import Found, count, laid_out, new_rows, repeated
from pipeline.ingest.sequences import (
    clock_jumps,
    gaps,
    numbers,
    overlaps,
    ranges,
    refused_numbers,
)
from pipeline.ingest.summary import Summary, as_time
from pipeline.rollups import HOUR_MS, MINUTE_MS, PARTS, coarser, rolled_up
from pipeline.schema import DATED, FAMILIES, PARTITIONS
from pipeline.tables import table_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from pyspark.sql import Row, SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
_SHOWN: Final = 20
"""The most clock jumps and overlaps that are named."""


class Ingest:
    """One run from `usage_log` into `tables`, both URIs. `now_ms` is the present; rows may not be far after it."""

    def __init__(self, spark: SparkSession, usage_log: str, tables: str, now_ms: int) -> None:
        self._spark = spark
        self._usage_log = usage_log
        self._tables = tables.rstrip("/")
        self._now_ms = now_ms
        self._batches = Batches(spark, self._tables)
        self._fs = FileSystem(spark, self._tables)
        self._summary = Summary()
        self._first_day: date | None = None

    def run(self) -> Summary:
        """Read what is new and return what was found.

        Raises PipelineError if the usage log has no files, and JobFailedError if the machine or the cluster fails: the
        next run completes what this one has begun.
        """
        try:
            self._batches.clean()
            self._first_day = tables.first_kept_day(self._spark, self._tables)
            self._read_new(list_files(self._spark, self._usage_log))
            self._summary.see(self._batches.figures())
        except SPARK_ERRORS as error:
            raise JobFailedError(
                f"ingest into {self._tables} failed: {cause_of(error)}. Run it again: nothing is lost or counted twice"
            ) from error
        return self._summary

    def _read_new(self, listed: DataFrame) -> None:
        summary = self._summary
        counted = listed.groupBy(sf.col("family").isNull()).count().collect()
        counts = {row[0]: row[1] for row in counted}
        if not counts:
            raise PipelineError(
                f"{self._usage_log}: no files FAMILY/dt=DAY/*.jsonl (or .gz, .zst) with rows are there"
            )
        summary.files_ignored = counts.get(True, 0)
        in_layout = listed.where(sf.col("family").isNotNull())
        if self._first_day is not None:
            in_layout = in_layout.where(day_of(sf.col("path")) >= sf.lit(self._first_day))
            summary.files_aged = counts.get(False, 0) - in_layout.count()
        is_done = False
        while not is_done:
            number, is_open = self._batches.last()
            if is_open:
                self._finish(self._batches.read(number))
                continue
            # Files that another run claims from here on are in a batch of the number that this one claims: it loses.
            new = self._batches.without_known(in_layout).collect()
            summary.files_known = counts.get(False, 0) - summary.files_aged - len(new)
            run = self._batches.new_run()
            readable = self._parse(new, run)
            if not readable:
                self._batches.delete(run)
                return
            batch = self._batches.claim(number + 1, run, readable)
            is_done = batch.run == run
            if is_done:
                summary.files_read = len(readable)
                summary.bytes_read = sum(row["size_bytes"] for row in readable)
            else:
                self._batches.delete(run)
            self._finish(batch)

    def _parse(self, new: Sequence[Row], run: str) -> list[Row]:
        """Write a copy of the files and return those that are in it; note the others."""
        of_families = {
            family: [row["path"] for row in new if row["family"] == family] for family in FAMILIES
        }
        folder = self._batches.folder(run)
        unreadable = _at_once(
            lambda family: parse(
                self._spark, family, of_families[family], f"{folder}/{family}", self._now_ms
            ),
            [family for family, files in of_families.items() if files],
        )
        self._summary.unreadable = {path: why for each in unreadable for path, why in each.items()}
        return [row for row in new if row["path"] not in self._summary.unreadable]

    def _finish(self, batch: Batch) -> None:
        """Do all that is left of a batch."""
        try:
            self._complete(batch)
        except SPARK_ERRORS:
            number, is_open = self._batches.last()
            if is_open and number == batch.number:
                raise
            # Another run has completed it, and deleted the copy.
        self._batches.delete(batch.run)
        self._summary.add(self._batches.figures(batch.number))

    def _complete(self, batch: Batch) -> None:
        number = batch.number
        has_copy = self._fs.exists(self._batches.folder(batch.run))
        families = sorted({family_of(row["path"]) for row in batch.files})
        parsed = {family: self._copy(batch, family, has_copy=has_copy) for family in families}
        counted = count(parsed)
        again = repeated(counted, self._table("sequences", number - 1))

        def find(family: str) -> Found:
            of_family, twice = (
                [row for row in rows if row["family"] == family] for rows in (counted, again)
            )
            before = self._rows_before(family, number) if twice else None
            return new_rows(family, parsed[family], of_family, twice, before)

        found = dict(zip(families, _at_once(find, families), strict=True))
        steps = [partial(self._add, family, number, each) for family, each in found.items()]
        if not has_copy:
            _at_once(
                _call, steps
            )  # nobody adds a row to the batch any more; those that are there are in the tables
            steps = []
        rows = {
            family: each.rows if has_copy else self._of_batch(family, number)
            for family, each in found.items()
        }
        refused = [each.refused for each in found.values() if each.quarantined or not has_copy]
        steps.append(partial(self._add_ranges, number, rows, refused))
        if PARTS.keys() & rows.keys():
            steps.append(partial(self._add_rollups, number, rows))
        if refused:
            lines = reduce(DataFrame.unionByName, refused)
            steps.append(partial(self._append, "quarantine", lines, number, ["dt"]))
        steps.append(partial(self._forget_refused, batch))
        _at_once(_call, steps)
        for each in found.values():
            if each.compared is not None:
                each.compared.unpersist()
        figures = _figures(found) | self._state(number)
        self._batches.close(number, figures | {"abandoned": not has_copy})

    def _rows_before(self, family: str, number: int) -> DataFrame | None:
        """Return the rows of a family before a batch; columns that an older Sluice has not written are null."""
        found = self._table(family, number - 1)
        columns = StructType([*FAMILIES[family], *DATED])
        uri = table_uri(self._tables, family)
        return None if found is None else tables.with_columns(uri, found, columns)

    def _copy(self, batch: Batch, family: str, *, has_copy: bool) -> DataFrame:
        folder = f"{self._batches.folder(batch.run)}/{family}"
        lines = read_copy(self._spark, family, folder if has_copy else None)
        if self._first_day is None:
            return lines
        return lines.where(sf.col("reason").isNotNull() | (sf.col("dt") >= sf.lit(self._first_day)))

    def _add(self, family: str, number: int, found: Found) -> None:
        """Add the new rows of a family to its table."""
        self._batches.append(family, _numbered(laid_out(found), number), number, PARTITIONS)

    def _add_rollups(self, number: int, rows: Mapping[str, DataFrame]) -> None:
        """Add the sums of the rows by minute, and those of the minutes by hour."""
        minutes = rolled_up(rows, MINUTE_MS)
        self._append("usage_minute", minutes, number, ["dt"])
        hours = coarser(self._of_batch("usage_minute", number), HOUR_MS)
        self._append("usage_hour", hours, number, ["dt"])

    def _add_ranges(
        self, number: int, rows: Mapping[str, DataFrame], refused: Sequence[DataFrame]
    ) -> None:
        """Add the ranges of the numbers of rows and of refused lines."""
        there = [numbers(of_family, family) for family, of_family in rows.items()]
        there += map(refused_numbers, refused)
        self._append("sequences", ranges(reduce(DataFrame.unionByName, there)), number)

    def _append(
        self, name: str, rows: DataFrame, number: int, partition_by: Sequence[str] = ()
    ) -> None:
        """Add rows, which are few, to a table: one file of each partition."""
        placed = rows.repartition(*partition_by) if partition_by else rows.repartition(1)
        self._batches.append(name, _numbered(placed, number), number, partition_by)

    def _forget_refused(self, batch: Batch) -> None:
        """Delete what the quarantine has of earlier readings of the files."""
        quarantine = self._table("quarantine", batch.number - 1)
        if quarantine is None:
            return
        paths = self._spark.createDataFrame([(row["path"],) for row in batch.files], "file string")
        again = quarantine.join(sf.broadcast(paths), "file", "left_semi").select("file").distinct()
        files = [row["file"] for row in again.collect()]
        if files:
            listed = ", ".join(map(delta.quoted, files))
            uri = table_uri(self._tables, "quarantine")
            delta.delete(self._spark, uri, f"batch < {batch.number} AND file IN ({listed})")

    def _table(self, name: str, last: int) -> DataFrame | None:
        """Return a table with all its columns, as it is up to a batch."""
        found = delta.maybe_read(self._spark, table_uri(self._tables, name))
        return None if found is None else found.where(sf.col("batch") <= last)

    def _of_batch(self, name: str, number: int, *, or_before: bool = False) -> DataFrame:
        """Return what a table has of a batch, or up to it."""
        found = delta.maybe_read(self._spark, table_uri(self._tables, name))
        if found is None:
            raise PipelineError(f"{table_uri(self._tables, name)}: the table is gone")
        batch = sf.col("batch")
        return found.where(batch <= number if or_before else batch == number)

    def _state(self, number: int) -> dict[str, object]:
        """Return what is missing and what is strange in the tables as a whole, after a batch."""
        sequences = self._of_batch("sequences", number, or_before=True).persist()
        lost, jumps, twice = _at_once(
            lambda found: found.collect(),
            [
                gaps(sequences).groupBy("family").agg(sf.count("*"), sf.sum("lost")),
                clock_jumps(sequences).orderBy("at_ms").limit(_SHOWN),
                overlaps(sequences).orderBy("first_ms").limit(_SHOWN),
            ],
        )
        sequences.unpersist()
        return {
            "gaps": {family: stretches for family, stretches, _ in lost},
            "lost_rows": {family: rows for family, _, rows in lost},
            "clock_jumps": [
                f"clock went back: {row['instance']} (boot {row['boot']}, {row['family']}) by {row['back_ms']:,} ms "
                f"at {as_time(row['at_ms'])}"
                for row in jumps
            ],
            "overlaps": [
                f"two starts at once: {row['instance']}, boots {row['other_boot']} and {row['boot']}, "
                f"{as_time(row['first_ms'])} to {as_time(row['last_ms'])}"
                for row in twice
            ],
        }


def _at_once(step: Callable[[_T], _R], each: Sequence[_T]) -> list[_R]:
    """Do independent steps side by side; return their results in order."""
    with ThreadPoolExecutor(len(each) or 1) as pool:
        return list(pool.map(step, each))


def _numbered(rows: DataFrame, number: int) -> DataFrame:
    """Return rows with their batch, in the first column: of the first ones Delta notes the bounds of each file."""
    return rows.select(sf.lit(number).cast("bigint").alias("batch"), "*")


def _call(step: Callable[[], None]) -> None:
    step()


def _figures(found: Mapping[str, Found]) -> dict[str, object]:
    """Return the figures of a batch."""
    times = [
        at_ms
        for each in found.values()
        for at_ms in (each.first_ms, each.last_ms)
        if at_ms is not None
    ]
    quarantined: dict[str, dict[str, int]] = {}
    for family, of_family in found.items():
        for reason, lines in of_family.quarantined.items():
            quarantined.setdefault(reason, {})[family] = lines
    return {
        "finished_ms": time.time_ns() // 1_000_000,
        "lines": {family: each.lines for family, each in found.items()},
        "rows_added": {family: each.rows_added for family, each in found.items()},
        "duplicates": sum(each.duplicates for each in found.values()),
        "quarantined": quarantined,
        "first_ms": min(times, default=None),
        "last_ms": max(times, default=None),
    }
