"""Reads the tables that `ingest` writes: one folder of Parquet files for each family, by day and hour.

Rules:
- A table has the columns of its family (`pipeline.schema`) and the partition columns `dt` and `hour`.
- A table of a later Sluice may have more columns, which are left out. One that lacks a column, or has it with another
  type, is refused with the column's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from pipeline.errors import PipelineError
from pipeline.schema import FAMILIES, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

PARTITIONS = ("dt", "hour")


def table_uri(tables: str, name: str) -> str:
    """Return the URI of a table below the URI of all tables."""
    return f"{tables.rstrip('/')}/{name}"


def read(spark: SparkSession, tables: str, family: str) -> DataFrame:
    """Return the rows of a family. Raises PipelineError if there are none, or if their columns do not fit."""
    found = maybe_read(spark, tables, family)
    if found is None or found.isEmpty():
        raise PipelineError(
            f"{table_uri(tables, family)} has no rows of the family {family!r}. "
            "Write the tables first: sluice-pipeline ingest USAGE_LOG TABLES"
        )
    return found


def maybe_read(spark: SparkSession, tables: str, name: str) -> DataFrame | None:
    """Return the table of a family or of RECORDS; None if it does not exist. Raises PipelineError as `read` does."""
    uri = table_uri(tables, name)
    try:
        if name in RECORDS:
            return spark.read.schema(RECORDS[name]).parquet(uri)
        found = spark.read.parquet(uri)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return None
        raise
    expected = FAMILIES[name]
    check_columns(uri, found.schema, expected)
    return found.select(*expected.fieldNames(), *PARTITIONS)


def check_columns(uri: str, found: StructType, expected: StructType) -> None:
    """Raise PipelineError if a column of `expected` is missing in `found`, or has another type there."""
    there: dict[str, StructField] = {field.name: field for field in found}
    for field in expected:
        actual = there.get(field.name)
        if actual is None or actual.dataType.simpleString() != field.dataType.simpleString():
            have = "does not have it" if actual is None else f"has {actual.dataType.simpleString()}"
            raise PipelineError(
                f"{uri}: expected a column {field.name!r} of type {field.dataType.simpleString()}, "
                f"the table {have}. Was it written by another version of Sluice?"
            )
