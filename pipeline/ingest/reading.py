"""Reads files of one family once, into a staged copy of checked rows and refused lines.

Rules:
- A file that cannot be read (a broken archive, no permission, deleted meanwhile) is left out as a whole and named. The
  next run tries it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import functions as sf

from pipeline.ingest.quality import parsed
from pipeline.spark_errors import SPARK_ERRORS, cause_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_CODEC: Final = "lz4"


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
            text = spark.read.option("lineSep", "\n").text(list(left))
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
