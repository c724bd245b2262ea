"""The files of a usage log, and which of them are new.

Rules:
- A file is `.../FAMILY/dt=DAY/NAME.jsonl`, or the same with `.gz` or `.zst`. Others are not read. Hidden ones, which
  Sluice is still writing, are skipped.
- The table `files` remembers path, size and time of every file that was read. A file with the same three is skipped;
  one that grew is read again as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql.functions import col, lit, nullif, regexp_extract, unix_millis

from pipeline.errors import PipelineError
from pipeline.schema import FAMILIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES: Final = "*.{jsonl,jsonl.gz,jsonl.zst}"
_LAYOUT: Final = rf"/({'|'.join(FAMILIES)})/dt=(\d{{4}}-\d{{2}}-\d{{2}})/[^/]+$"
IDENTITY: Final = ("path", "size_bytes", "modified_ms")
"""The columns that say whether a file was read already."""


def list_files(spark: SparkSession, usage_log: str) -> DataFrame:
    """Return the files of a usage log: family and day (null outside the layout), path, size_bytes, modified_ms.

    Raises PipelineError if there is no such path.
    """
    try:
        found = (
            spark.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", _NAMES)
            .load(usage_log)
        )
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise PipelineError(
                f"{usage_log}: no such path; expected a folder with files FAMILY/dt=DAY/*.jsonl"
            ) from error
        raise
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
