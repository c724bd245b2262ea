"""The tables that `ingest` writes beside the rows: the quarantine, the files it has read, ranges and gaps of `seq`.

Rules:
- A file that is read again replaces its own lines in the quarantine: a torn last line that is whole by now is gone.
- Everything is written to the staging folder, whole days at a time.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.hadoop import FileSystem
from pipeline.ingest.reading import listed_path
from pipeline.ingest.sequences import gaps
from pipeline.schema import FILES, SEQUENCES
from pipeline.tables import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row, SparkSession

    from pipeline.ingest.staging import Staging

_DAY = ("family", "dt")


class Records:
    """Writes the records of one run beside its rows."""

    def __init__(self, spark: SparkSession, uri: str, staging: Staging) -> None:
        self._spark = spark
        self._uri = uri
        self._staging = staging
        self._fs = FileSystem(spark, uri)

    def write_files(self, read: Sequence[Row]) -> None:
        """Remember the files that were read."""
        rows = [tuple(row[name] for name in FILES.names) for row in read]
        files = self._spark.createDataFrame(rows, FILES)
        files.coalesce(1).write.parquet(self._staging.table(f"files/run={self._staging.run}"))

    def write_quarantine(self, read: Sequence[Row], refused: Sequence[DataFrame]) -> list[str]:
        """Write the quarantine of the days that change; return the folders in which nothing is left."""
        lines = reduce(DataFrame.union, (_lines(each) for each in refused))
        days = sorted({(row["family"], row["day"]) for row in read})
        table = tables.maybe_read(self._spark, self._uri, "quarantine")
        if table is not None:
            read_days = self._spark.createDataFrame(days, "family string, dt string")
            read_files = self._spark.createDataFrame(
                [(row["path"],) for row in read], "file string"
            )
            kept = table.join(sf.broadcast(read_days), list(_DAY), "left_semi").join(
                sf.broadcast(read_files), "file", "left_anti"
            )
            lines = lines.unionByName(kept)
        written = self._staging.table("quarantine")
        lines.write.partitionBy(*_DAY).parquet(written)
        folders = [f"family={family}/dt={day}" for family, day in days]
        return [
            f"quarantine/{each}" for each in folders if not self._fs.exists(f"{written}/{each}")
        ]

    def write_sequences(self, ranges: Sequence[DataFrame]) -> DataFrame | None:
        """Write the ranges of the days that change, and all gaps; return all ranges, None if there are none."""
        table = tables.maybe_read(self._spark, self._uri, "sequences")
        if not ranges:
            return table
        new = reduce(DataFrame.unionByName, ranges).select(*SEQUENCES.names)
        written = self._staging.uri("ranges")
        new.coalesce(1).write.parquet(written)
        new = self._spark.read.schema(SEQUENCES).parquet(written)
        every = new
        if table is not None:
            hours = new.select("family", *PARTITIONS).distinct()
            every = new.unionByName(
                table.join(sf.broadcast(hours), ["family", *PARTITIONS], "left_anti")
            )
        days = new.select(*_DAY).distinct()
        changed = every.join(sf.broadcast(days), list(_DAY), "left_semi")
        changed.coalesce(1).write.partitionBy(*_DAY).parquet(self._staging.table("sequences"))
        gaps(every).coalesce(1).write.parquet(self._staging.table("gaps"))
        return every


def _lines(refused: DataFrame) -> DataFrame:
    """Return refused lines as rows of the table `quarantine`."""
    path = listed_path(sf.col("file"))
    return refused.select("reason", "family", path.alias("file"), "line", sf.col("day").alias("dt"))
