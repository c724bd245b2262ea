"""Errors of Spark and of the file systems under it, as one line for a person."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""The errors that a job of Spark, or a call of Hadoop's FileSystem, raises."""
_CAUSED_BY: Final = "Caused by: "
_OF_PY4J: Final = "An error occurred while calling"


def cause_of(error: Exception) -> str:
    """Return the first cause of an error of Spark: the last "Caused by" of Java, else its first line."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    lines = [line for line in lines if not line.startswith(_OF_PY4J)]
    causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]
