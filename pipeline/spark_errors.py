"""Errors of Spark and of the file systems under it, as one line for a person."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""The errors that a job of Spark, or a call of Hadoop's FileSystem, raises."""
_CAUSED_BY: Final = "Caused by: "
_RAISED: Final = ": "
"""So begins the exception in the text of a Py4JJavaError, on the line after the call."""


def cause_of(error: Exception) -> str:
    """Return the first cause of an error of Spark, on one line: Java's last "Caused by", else the exception itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for start, place in ((_CAUSED_BY, -1), (_RAISED, 0)):
        found = [line.removeprefix(start) for line in lines if line.startswith(start)]
        if found:
            return found[place]
    return lines[0] if lines else type(error).__name__
