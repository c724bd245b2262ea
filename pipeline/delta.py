"""Reads and writes one table of Delta Lake.

Rules:
- A writer numbers its appends: `app` and `version` are Delta's transaction. A table takes a version of an app once, and
  none below its last. So a step that may have been done is simply done again.
- Two appends of one transaction at once end as one. Any other conflict is tried again with the table as it is then.
- A table is created by its first append, and gets new columns by a later one. It never loses one: an append that lacks
  a column of the table, because a later Sluice has added it, writes null there.
- On a local file system Delta's commit is a check and then a rename, which two processes may do at once: both believe
  that they have written. There a process commits in its turn, which the kernel takes from it when it dies.
"""

from __future__ import annotations

import fcntl
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException

from pipeline.errors import PipelineError
from pipeline.hadoop import SPARK_ERRORS, FileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_CONFLICT: Final = re.compile(
    r"io\.delta\.exceptions\.(Concurrent\w+|MetadataChanged|ProtocolChanged)Exception"
)
_ATTEMPTS: Final = 10
_TURN_SECONDS: Final = 900
_POLL_SECONDS: Final = 0.05
_ABSENT: Final = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")
_NO_DELTA: Final = "DATA_SOURCE_NOT_FOUND"


def maybe_read(spark: SparkSession, uri: str) -> DataFrame | None:
    """Return the rows of a table, at each query as it is then; None if there is no table.

    Raises PipelineError if Spark runs without Delta Lake.
    """
    try:
        return spark.read.format("delta").load(uri)
    except AnalysisException as error:
        if error.getCondition() in _ABSENT:
            return None
        if error.getCondition() == _NO_DELTA:
            raise PipelineError(
                "Spark runs without Delta Lake. Give spark-submit the option --jars that "
                "`sluice-pipeline package FOLDER` prints"
            ) from error
        raise


def append(
    rows: DataFrame, uri: str, *, app: str, version: int, partition_by: Sequence[str] = ()
) -> None:
    """Add rows to a table, which is created if it is absent; nothing if it has had this transaction or a later one.

    Raises what Spark raises. Without an error all rows are there once.
    """
    writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
    writer = writer.option("txnAppId", app).option("txnVersion", version)
    with turn(rows.sparkSession, uri):
        again(lambda: writer.partitionBy(*partition_by).save(uri))


def delete(spark: SparkSession, uri: str, where: str) -> None:
    """Delete the rows of a table for which a condition in SQL holds. Raises what Spark raises."""
    statement = f"DELETE FROM {_quoted(uri)} WHERE {where}"  # noqa: S608 - texts in it are quoted
    with turn(spark, uri):
        again(lambda: spark.sql(statement).collect())


def quoted(text: str) -> str:
    """Return a text as a literal of SQL. Delta's own statements take no parameters."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def replace(rows: DataFrame, uri: str, days: Sequence[str] | None) -> None:
    """Replace a table, or the rows of these days, by `rows`, which are computed from it. Raises what Spark raises.

    The rows are computed in the transaction, of the table as it is then: what others append meanwhile stays. So `rows`
    must not be persisted.
    """
    writer = rows.write.format("delta").mode("overwrite")
    if days is not None:
        writer = writer.option("replaceWhere", f"dt IN ({_listed(days)})")
    with turn(rows.sparkSession, uri):
        again(lambda: writer.save(uri))


def size(spark: SparkSession, uri: str) -> tuple[int, int]:
    """Return how many files a table has, and their bytes."""
    row = spark.sql(f"DESCRIBE DETAIL {_quoted(uri)}").collect()[0]
    return int(row["numFiles"]), int(row["sizeInBytes"])


def optimize(spark: SparkSession, uri: str, days: Sequence[str] | None) -> int:
    """Join small files of a table, or of these days; return how many there are fewer. Raises what Spark raises."""
    where = "" if days is None else f" WHERE dt IN ({_listed(days)})"
    fewer = 0

    def commit() -> None:
        nonlocal fewer
        row = spark.sql(f"OPTIMIZE {_quoted(uri)}{where}").collect()[0]
        fewer = row["metrics"]["numFilesRemoved"] - row["metrics"]["numFilesAdded"]

    with turn(spark, uri):
        again(commit)
    return fewer


def vacuum(spark: SparkSession, uri: str, hours: int, *, is_dry: bool) -> int:
    """Delete files that have been of no version of a table for so long; with `is_dry` return how many there are."""
    statement = f"VACUUM {_quoted(uri)} RETAIN {hours} HOURS"
    with turn(spark, uri), _java_prints_nothing(spark):
        return spark.sql(f"{statement} DRY RUN" if is_dry else statement).count()


@contextmanager
def _java_prints_nothing(spark: SparkSession) -> Iterator[None]:
    """Keep what this thread prints in Java from standard output: VACUUM has a line of its own there."""
    jvm = spark._jvm  # noqa: SLF001 - PySpark has no public way to Scala's Console
    assert jvm is not None  # noqa: S101 - a session of a running driver has one
    console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
    out = console.out()
    console.setOutDirect(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
    try:
        yield
    finally:
        console.setOutDirect(out)


def _quoted(uri: str) -> str:
    path = uri.replace("`", "``")
    return f"delta.`{path}`"


def _listed(days: Sequence[str]) -> str:
    return ", ".join(f"'{day}'" for day in days)


def again(commit: Callable[[], object]) -> None:
    """Do a commit that may be done twice; again if another one was in its way. Raises what Spark raises."""
    for attempt in range(_ATTEMPTS):
        try:
            commit()
        except SPARK_ERRORS as error:
            if attempt == _ATTEMPTS - 1 or not _CONFLICT.search(str(error)):
                raise
        else:
            return


@contextmanager
def turn(spark: SparkSession, uri: str) -> Iterator[None]:
    """Keep other processes of this machine from commits to the table. On other file systems Delta does this itself.

    Raises PipelineError if another process does not end its commit.
    """
    folder = FileSystem(spark, uri).local_path(uri)
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".turn").open("w") as file:
        give_up = time.monotonic() + _TURN_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    raise PipelineError(
                        f"{uri}: another process has been writing this table for {_TURN_SECONDS} s"
                    ) from error
                time.sleep(_POLL_SECONDS)
        yield
