"""The files of a usage log: which of them are new, and their lines, read once into a staged copy.

Rules:
- A file is `.../FAMILY/dt=DAY/NAME.jsonl`, or the same with `.gz` or `.zst`. Others are not read. Hidden ones, which
  Sluice is still writing, are skipped.
- The table `files` remembers path, size and time of every file that was read. A file with the same three is skipped;
  one that grew is read again as a whole.
- A file that cannot be read (a broken archive, no permission, deleted meanwhile) is left out as a whole and named. The
  next run tries it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import functions as sf
from pyspark.sql.functions import col, lit, nullif, regexp_extract, unix_millis

from pipeline.hadoop import SPARK_ERRORS, cause_of
from pipeline.ingest.quality import parsed
from pipeline.inputs import literal, readable
from pipeline.schema import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession


_NAMES: Final = "*.{jsonl,jsonl.gz,jsonl.zst}"
_LAYOUT: Final = rf"/({'|'.join(FAMILIES)})/dt=(\d{{4}}-\d{{2}}-\d{{2}})/[^/]+$"
IDENTITY: Final = ("path", "size_bytes", "modified_ms")
"""The columns that say whether a file was read already."""

_CODEC: Final = "lz4"


def list_files(spark: SparkSession, usage_log: str) -> DataFrame:
    """Return the files of a usage log: family and day (null outside the layout), path, size_bytes, modified_ms.

    Raises PipelineError if there is no such path.
    """
    found = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", _NAMES)
        .load(readable(spark, usage_log, "a folder with files FAMILY/dt=DAY/*.jsonl"))
    )
    return found.select(
        nullif(regexp_extract("path", _LAYOUT, 1), lit("")).alias("family"),
        nullif(regexp_extract("path", _LAYOUT, 2), lit("")).alias("day"),
        "path",
        col("length").alias("size_bytes"),
        unix_millis("modificationTime").alias("modified_ms"),
    )


def new_files(listed: DataFrame, read_before: DataFrame | None) -> DataFrame:
    """Return the listed files that were not read yet, or have changed since."""
    if read_before is None:
        return listed
    return listed.join(read_before.select(*IDENTITY), list(IDENTITY), "left_anti")


class Staged(NamedTuple):
    """The copy (None without a readable file), the sizes of the files that are in it, and why others are not."""

    rows: DataFrame | None
    files: Mapping[str, int]
    unreadable: Mapping[str, str]


def stage(
    spark: SparkSession, family: str, files: Mapping[str, int], copy: str, now_ms: int
) -> Staged:
    """Read the files (URIs and sizes) and write their lines, parsed and checked, to the URI `copy`."""
    left = dict(files)
    unreadable: dict[str, str] = {}
    while left:
        try:
            text = spark.read.option("lineSep", "\n").text([literal(path) for path in left])
            file = sf.col("_metadata.file_path")
            lines = text.select("value", file.alias("file"), _day(file).alias("day"))
            checked = parsed(lines, family, now_ms)
            checked.write.mode("overwrite").option("compression", _CODEC).parquet(copy)
        except SPARK_ERRORS as error:
            path = _unreadable_file(str(error), left)
            if path is None:
                raise
            del left[path]
            unreadable[path] = cause_of(error)
        else:
            return Staged(spark.read.parquet(copy), left, unreadable)
    return Staged(None, {}, unreadable)


def listed_path(escaped: Column) -> Column:
    """Return the path of a row's file as it is listed: Spark escapes it in its metadata, and not there."""
    plus = sf.replace(escaped, sf.lit("+"), sf.lit("%2B"))
    return sf.regexp_replace(sf.url_decode(plus), "^file:/+", "file:/")


def _day(path: Column) -> Column:
    return sf.substring_index(sf.substring_index(path, "/dt=", -1), "/", 1)


def _unreadable_file(message: str, files: Collection[str]) -> str | None:
    """Return the file that an error of Spark names, if it is one of `files`."""
    if not any(sign in message for sign in ("FAILED_READ_FILE", "PATH_NOT_FOUND")):
        return None
    texts = (message, unquote(message))
    found = [path for path in files if any(path.removeprefix("file:") in text for text in texts)]
    return max(found, key=len, default=None)
