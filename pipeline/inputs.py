"""Says what is at a path that a person gave, before Spark says something else.

Rules:
- A path that exists is meant as it is, also with brackets, braces or stars in it. In one that does not `*` stands for
  any characters of a name; nothing else is a wildcard.
- Whoever mixes up a usage log, tables, and tables of an older Sluice is told which of them it is, and the command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pipeline.errors import PipelineError
from pipeline.hadoop import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WILDCARDS: Final = re.compile(r"[\[\]{}*?\\]")
_DELTA_LOG: Final = "_delta_log"
_WRITE_FIRST: Final = "Write the tables first: sluice-pipeline ingest USAGE_LOG TABLES"


def literal(uri: str) -> str:
    """Return a URI as Spark's readers of files take it: they would read some characters as wildcards."""
    return _WILDCARDS.sub(r"\\\g<0>", uri)


def readable(spark: SparkSession, uri: str, expected: str) -> str:
    """Return a URI, maybe with `*`, as Spark's readers of files take it. Raises PipelineError if nothing is there."""
    files = FileSystem(spark, uri)
    if files.exists(uri):
        return literal(uri)
    pattern = "*".join(map(literal, uri.split("*")))
    if files.matches(pattern):
        return pattern
    raise PipelineError(f"{uri} does not exist; expected {expected}")


def check_is_no_table(spark: SparkSession, uri: str) -> None:
    """Raise PipelineError if there is a table where a folder of a usage log is expected."""
    if _DELTA_LOG in FileSystem(spark, uri).names(uri):
        raise PipelineError(f"{uri} is a table of `ingest`; expected a folder of a usage log")


def why_no_rows(spark: SparkSession, tables: str, family: str) -> str:
    """Return why the tables have no rows of a family, and what to do."""
    files = FileSystem(spark, tables)
    uri = f"{tables.rstrip('/')}/{family}"
    if not files.exists(tables):
        return (
            f"{uri} has no rows of the family {family!r}: {tables} does not exist. {_WRITE_FIRST}"
        )
    if _DELTA_LOG in files.names(uri):
        return f"{uri} has no rows of the family {family!r}"
    file = files.some_file(uri if files.exists(uri) else tables) or ""
    if ".jsonl" in file:
        return f"{tables} is a usage log, not tables. {_WRITE_FIRST}"
    if file.endswith(".parquet"):
        return f"{tables} has tables of an older Sluice. Run first: sluice-pipeline migrate {tables} NEW_TABLES"
    return f"{uri} has no rows of the family {family!r}. {_WRITE_FIRST}"
