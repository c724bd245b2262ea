"""The files of a usage log, and their lines, parsed once into a copy.

Rules:
- A file is `.../FAMILY/dt=DAY/NAME.jsonl`, or the same with `.gz` or `.zst`. Others are not read. Hidden ones, which
  Sluice is still writing, are skipped.
- A file with path, size and time of one that was read is not read; one that grew is read again as a whole.
- A file that cannot be read (a broken archive, no permission, deleted meanwhile) is left out as a whole and named. The
  next run tries it again. After such a failure the others are read in halves: each costs the others of its half only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import functions as sf
from pyspark.sql.functions import col, lit, nullif, regexp_extract, unix_millis
from pyspark.sql.types import DateType, StringType, StructField, StructType

from pipeline.hadoop import SPARK_ERRORS, cause_of
from pipeline.ingest.quality import parsed
from pipeline.inputs import literal, readable
from pipeline.schema import DATED, FAMILIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


_NAMES: Final = "*.{jsonl,jsonl.gz,jsonl.zst}"
_LAYOUT: Final = rf"/({'|'.join(FAMILIES)})/dt=(\d{{4}}-\d{{2}}-\d{{2}})/[^/]+$"
_CODEC: Final = "lz4"


def list_files(spark: SparkSession, usage_log: str) -> DataFrame:
    """Return the files of a usage log: family (null outside the layout), path, size_bytes, modified_ms.

    Raises PipelineError if there is no such path.
    """
    found = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", _NAMES)
        .load(readable(spark, usage_log, "a folder with files FAMILY/dt=DAY/*.jsonl"))
    )
    family, day = (regexp_extract("path", _LAYOUT, group) for group in (1, 2))
    return found.select(
        sf.when(nullif(day, lit("")).try_cast("date").isNotNull(), family).alias("family"),
        "path",
        col("length").alias("size_bytes"),
        unix_millis("modificationTime").alias("modified_ms"),
    )


def parse(
    spark: SparkSession, family: str, files: Collection[str], copy: str, now_ms: int
) -> dict[str, str]:
    """Write the lines of these files, parsed and checked, below the URI `copy`.

    Returns the files that cannot be read, which are not in the copy, and why.
    """
    unreadable: dict[str, str] = {}
    parts = [list(files)]
    written = 0
    while parts:
        part = parts.pop()
        try:
            text = spark.read.option("lineSep", "\n").text([literal(path) for path in part])
            file = col("_metadata.file_path")
            lines = text.select("value", file.alias("file"), day_of(file).alias("day"))
            checked = parsed(lines, family, now_ms).withColumn("file", listed_path(col("file")))
            checked.write.mode("overwrite").option("compression", _CODEC).parquet(
                f"{copy}/{written}"
            )
            written += 1
        except SPARK_ERRORS as error:
            path = _unreadable_file(str(error), part)
            if path is None:
                raise
            part.remove(path)
            unreadable[path] = cause_of(error)
            half = len(part) // 2
            parts += [each for each in (part[:half], part[half:]) if each]
    return unreadable


def family_of(path: str) -> str:
    """Return the family of a listed file in the layout."""
    return path.rsplit("/", 3)[1]


def read_copy(spark: SparkSession, family: str, copy: str | None) -> DataFrame:
    """Return the lines that `parse` has written; no line if there is no copy."""
    of_line = [StructField(name, StringType()) for name in ("reason", "line", "file")]
    columns = StructType([*FAMILIES[family], *of_line, StructField("day", DateType()), *DATED])
    if copy is None:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).option("recursiveFileLookup", "true").parquet(literal(copy))


def listed_path(escaped: Column) -> Column:
    """Return the path of a row's file as it is listed: Spark escapes it in its metadata, and not there."""
    plus = sf.replace(escaped, sf.lit("+"), sf.lit("%2B"))
    return sf.regexp_replace(sf.url_decode(plus), "^file:/+", "file:/")


def day_of(path: Column) -> Column:
    """Return the day of the folder of a file in the layout."""
    return sf.substring_index(sf.substring_index(path, "/dt=", -1), "/", 1).cast("date")


def _unreadable_file(message: str, files: Sequence[str]) -> str | None:
    """Return the file that an error of Spark names, if it is one of `files`."""
    if not any(sign in message for sign in ("FAILED_READ_FILE", "PATH_NOT_FOUND")):
        return None
    texts = (message, unquote(message))
    found = [path for path in files if any(path.removeprefix("file:") in text for text in texts)]
    return max(found, key=len, default=None)
