"""The job `maintain`: tables that stay small and quick, however long and however often `ingest` runs.

Rules:
- Every step is one commit of Delta Lake, after which the tables say the same, or no longer have days that are too old.
  So a run may die at any point, and is simply run again; what is done already is found so and not done again.
- Others go on meanwhile. A reader keeps the files that it began with: they are deleted only days later. An append of
  `ingest` that comes in between stays.
- What was deleted stays away: the first day that is kept is written to the table `retention` before anything is
  deleted, and `ingest` reads no file and no row of an earlier day.
- Only batches that ended an hour ago are merged (`pipeline.merging`). A job that began before that sees each row once.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as sf

from pipeline import delta
from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem
from pipeline.merging import merge_rollup, merge_sequences
from pipeline.rollups import ROLLUPS
from pipeline.schema import RETENTION
from pipeline.tables import first_kept_day, table_uri

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

APP: Final = "sluice.maintain"
DAY_HOURS: Final = 24
DELTA_DAYS: Final = 7
"""Delta's own horizon: a shorter one it takes only without its guard."""
SETTLED_MS: Final = 3_600_000
"""How long ago a batch has ended of which rows are merged: longer than a job of a reader takes."""
FILE_BYTES: Final = 256 * 2**20
"""How large the files are that small ones are joined to."""
_FILES_OF_COMMIT: Final = 5_000
_LOG: Final = "_delta_log"
_FILE_DAY: Final = r"regexp_extract(path, '/dt=([0-9-]+)/[^/]+$', 1)"


class Plan(NamedTuple):
    """What is to be done. A day before `rows_from`, or for rollups `rollups_from`, is deleted; None keeps all."""

    now_ms: int
    rows_from: date | None = None
    rollups_from: date | None = None
    horizon_days: int = 7
    """How long files that no longer belong to a table are kept for readers and writers that have begun before."""
    is_dry: bool = False


class Maintained(NamedTuple):
    """What was done to a table, or with `is_dry` would be: its files and bytes before and after, and rows."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_deleted: int
    rows_merged: int
    files_joined: int
    files_deleted: int

    def text(self, *, is_dry: bool) -> str:
        """Return a line for a person."""
        words = [
            f"{count:,} {noun}"
            for count, noun in (
                (self.rows_deleted, "rows too old"),
                (self.rows_merged, "rows merged away"),
                (self.files_joined, "small files joined"),
                (self.files_deleted, "unused files deleted"),
            )
            if count
        ]
        size = f"{self.files_before:,} files, {self.bytes_before / 1e6:,.1f} MB"
        if not is_dry:
            size += f" -> {self.files_after:,} files, {self.bytes_after / 1e6:,.1f} MB"
        return f"{self.table}: {size}: {', '.join(words) or 'nothing to do'}"


def maintain(spark: SparkSession, uri: str, plan: Plan) -> Iterator[Maintained]:
    """Do it, and yield what was done to each table as it ends.

    Raises PipelineError if there are no tables.
    """
    fs = FileSystem(spark, uri)
    names = [name for name in fs.names(uri) if fs.exists(f"{table_uri(uri, name)}/{_LOG}")]
    if not names:
        raise PipelineError(
            f"{uri}: no tables are there; expected those of `ingest` or `stream`, each with a folder {_LOG}"
        )
    with _settings(spark, plan):
        yield from _Run(spark, uri, plan).tables(names)


class _Run:
    """One run over the tables at a URI."""

    def __init__(self, spark: SparkSession, uri: str, plan: Plan) -> None:
        self._spark = spark
        self._uri = uri
        self._plan = plan
        self._settled = -1
        self._first_day = plan.rows_from

    def tables(self, names: list[str]) -> Iterator[Maintained]:
        if "batches" in names:
            ended = self._rows("batches").where(
                sf.col("finished_ms") <= self._plan.now_ms - SETTLED_MS
            )
            self._settled = _number(ended.agg(sf.max("batch")), -1)
        if self._plan.rows_from is not None and not self._plan.is_dry:
            self._keep_from(self._plan.rows_from)
        self._first_day = first_kept_day(self._spark, self._uri) or self._plan.rows_from
        for name in sorted(names, key=lambda name: (name == "batches", name)):
            yield self._table(name)

    def _keep_from(self, day: date) -> None:
        rows = self._spark.createDataFrame([(day, self._plan.now_ms)], RETENTION)
        uri = table_uri(self._uri, "retention")
        delta.append(rows.coalesce(1), uri, app=APP, version=day.toordinal())

    def _table(self, name: str) -> Maintained:
        uri = table_uri(self._uri, name)
        files, size = delta.size(self._spark, uri)
        deleted = self._delete(name)
        merged = self._merge(name)
        joined = 0 if merged else self._join(name)
        unused = self._vacuum(name)
        after = (files, size) if self._plan.is_dry else delta.size(self._spark, uri)
        return Maintained(name, files, after[0], size, after[1], deleted, merged, joined, unused)

    def _delete(self, name: str) -> int:
        """Delete the rows of days that are too old; return how many."""
        where = self._too_old(name)
        if where is None:
            return 0
        found = self._rows(name).where(where).count()
        if found and not self._plan.is_dry:
            delta.delete(self._spark, table_uri(self._uri, name), where)
        return found

    def _too_old(self, name: str) -> str | None:
        """Return the condition of rows that are too old; None if there are none."""
        day = self._plan.rollups_from if name in ROLLUPS else self._first_day
        if day is None or name in ("retention", "sequences"):
            return None
        if name == "files":
            return f"batch <= {self._settled} AND {_FILE_DAY} < '{day}'"
        if name == "batches":  # the last one has the number of the next
            midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
            return f"batch < {self._settled} AND finished_ms < {int(midnight.timestamp() * 1000)}"
        return f"dt < '{day}'" if "dt" in self._rows(name).columns else None

    def _merge(self, name: str) -> int:
        """Merge the rows of settled batches; return by how many they are fewer."""
        rows = self._rows(name)
        merged: DataFrame | None = None
        days: list[str] | None = None
        if name in ROLLUPS:
            new = rows.where(f"batch > 0 AND batch <= {self._settled}").select("dt").distinct()
            days = sorted(str(row["dt"]) for row in new.collect())
            if not days:
                return 0
            rows = rows.where(sf.col("dt").isin(days))
            merged = merge_rollup(rows, ROLLUPS[name], self._settled)
        elif name == "sequences" and self._settled >= 0:
            merged = merge_sequences(rows, self._first_day, self._settled)
        if merged is None:
            return 0
        before, after = rows.count(), merged.count()
        if after < before and not self._plan.is_dry:
            delta.replace(merged, table_uri(self._uri, name), days)
        return before - after

    def _join(self, name: str) -> int:
        """Join small files; return how many there are no more, with `is_dry` how many share a folder."""
        folders = Counter(path.rpartition("/")[0] for path in self._rows(name).inputFiles())
        crowded = sorted((folder, count) for folder, count in folders.items() if count > 1)
        if self._plan.is_dry:
            return sum(count for _, count in crowded)
        uri = table_uri(self._uri, name)
        joined, files = 0, 0
        days: set[str] = set()
        for folder, count in crowded:
            day = folder.partition(f"/{name}/dt=")[2].partition("/")[0]
            if not day:
                return delta.optimize(self._spark, uri, None)
            days.add(day)
            files += count
            if files >= _FILES_OF_COMMIT:
                joined += delta.optimize(self._spark, uri, sorted(days))
                days, files = set(), 0
        return joined + (delta.optimize(self._spark, uri, sorted(days)) if days else 0)

    def _vacuum(self, name: str) -> int:
        """Delete the files that are of no table any more and older than the horizon; return how many."""
        uri = table_uri(self._uri, name)
        hours = self._plan.horizon_days * DAY_HOURS
        unused = delta.vacuum(self._spark, uri, hours, is_dry=True)
        if unused and not self._plan.is_dry:
            delta.vacuum(self._spark, uri, hours, is_dry=False)
        return unused

    def _rows(self, name: str) -> DataFrame:
        found = delta.maybe_read(self._spark, table_uri(self._uri, name))
        assert found is not None  # noqa: S101 - its folder has a log
        return found


def _number(found: DataFrame, otherwise: int) -> int:
    row = found.first()
    return otherwise if row is None or row[0] is None else int(row[0])


@contextmanager
def _settings(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """Set what Delta takes from the session only, and put back what was set before."""
    wanted = {
        "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
        "spark.databricks.delta.optimize.minFileSize": str(FILE_BYTES // 2),
        # Delta's own guard is for horizons that were not meant; this one was given.
        "spark.databricks.delta.retentionDurationCheck.enabled": str(
            plan.horizon_days >= DELTA_DAYS
        ).lower(),
        # Delta lists folders in so many tasks; Spark's default is 10,000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
            2 * spark.sparkContext.defaultParallelism
        ),
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
