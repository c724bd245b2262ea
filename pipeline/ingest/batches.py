"""The numbered batches in which the files of a usage log become rows: what is open, and what comes next.

Rules:
- A batch begins when its files are in the table `files`, and ends with its row in `batches`. In between it is open.
- Batches come one after the other: who finds an open one completes it before the next begins. So the tables before a
  batch are the same for all who work on it, and so is what they add.
- Of several runs that claim a number one wins; the others find its files in the table, not their own.
- What a run has parsed lies in `_ingest/RUN` until its batch has ended. From the claim on it belongs to all.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as sf

from pipeline import delta, tables
from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem
from pipeline.ingest.quality import DAY_MS
from pipeline.schema import BATCHES, FILES
from pipeline.tables import table_uri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

APP: Final = "sluice.ingest"
"""The application of the transactions of all tables; their versions are the batches."""
MIGRATED: Final = 0
"""The batch of what `migrate` writes; it has ended when it is in `batches`."""
FOLDER: Final = "_ingest"
IDENTITY: Final = ("path", "size_bytes", "modified_ms")
"""The columns that say whether a file was read already."""


class Batch(NamedTuple):
    """The number of a batch, the run that has parsed it, and its files."""

    number: int
    run: str
    files: Sequence[Row]


class Batches:
    """The batches of the tables at a URI."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        self._fs = FileSystem(spark, uri)

    def last(self) -> tuple[int, bool]:
        """Return the number of the last batch, 0 before the first, and whether it is open."""
        files = self._table("files")  # before `batches`: a batch may end in between
        found = None if files is None else files.agg(sf.max("batch")).first()
        begun = (found and found[0]) or 0
        ended = tables.last_batch(self._spark, self._uri)
        if ended is None and found is not None and found[0] == MIGRATED:
            raise PipelineError(
                f"{self._uri}: not all of the older tables is there yet; run sluice-pipeline migrate again"
            )
        ended = ended or 0
        return max(begun, ended), begun > ended

    def read(self, number: int) -> Batch:
        """Return a batch that has begun."""
        files = self._table("files")
        rows = [] if files is None else files.where(sf.col("batch") == number).collect()
        if not rows:
            raise PipelineError(
                f"{table_uri(self._uri, 'files')}: batch {number} has no files; were rows of the table deleted?"
            )
        return Batch(number, rows[0]["run"], rows)

    def without_known(self, listed: DataFrame) -> DataFrame:
        """Return the listed files that are of no batch, or have changed since."""
        files = self._table("files")
        if files is None:
            return listed
        batches = self._table("batches")
        if batches is not None:
            abandoned = batches.where("abandoned").select("batch")
            files = files.join(sf.broadcast(abandoned), "batch", "left_anti")
        return listed.join(files.select(*IDENTITY), list(IDENTITY), "left_anti")

    def claim(self, number: int, run: str, files: Sequence[Row]) -> Batch:
        """Begin a batch with these files, unless another run has begun it; return it as it is."""
        rows = [(*(row[name] for name in IDENTITY), number, run) for row in files]
        self.append("files", self._spark.createDataFrame(rows, FILES).coalesce(1), number)
        return self.read(number)

    def close(self, number: int, figures: Mapping[str, object]) -> None:
        """End a batch with its figures, unless it has ended."""
        numbered = {"batch": number, **figures}
        row = tuple(numbered[name] for name in BATCHES.names)
        self.append("batches", self._spark.createDataFrame([row], BATCHES).coalesce(1), number)

    def figures(self, number: int | None = None) -> Mapping[str, object]:
        """Return the figures with which a batch has ended, by default the last one; none before the first."""
        batches = self._table("batches")
        if batches is None:
            return {}
        row = batches.where(sf.lit(True) if number is None else sf.col("batch") == number)
        found = row.orderBy(sf.desc("batch")).first()
        return {} if found is None else found.asDict()

    def append(
        self, name: str, rows: DataFrame, number: int, partition_by: Sequence[str] = ()
    ) -> None:
        """Add the rows of a batch to a table, unless it has them."""
        uri = table_uri(self._uri, name)
        delta.append(rows, uri, app=APP, version=number, partition_by=partition_by)

    def new_run(self) -> str:
        """Return a name for what a run parses; it begins with the time."""
        return f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(4)}"

    def folder(self, run: str) -> str:
        """Return where a run keeps what it has parsed."""
        return f"{table_uri(self._uri, FOLDER)}/{run}"

    def delete(self, run: str) -> None:
        """Delete what a run has parsed."""
        self._fs.delete(self.folder(run))

    def clean(self) -> None:
        """Delete what ended batches and runs that died have left; a run that has claimed nothing may last a day."""
        runs = self._fs.names(table_uri(self._uri, FOLDER))
        files = self._table("files")
        batches = {}
        if runs and files is not None:
            there = files.where(sf.col("run").isin(runs)).select("run", "batch").distinct()
            batches = {row["run"]: row["batch"] for row in there.collect()}
        number, is_open = self.last() if runs else (0, False)
        day_ago = f"{time.time_ns() // 1_000_000 - DAY_MS:013d}"
        for run in runs:
            batch = batches.get(run)
            if run < day_ago if batch is None else batch < number or not is_open:
                self.delete(run)

    def _table(self, name: str) -> DataFrame | None:
        return tables.maybe_read(self._spark, self._uri, name)
