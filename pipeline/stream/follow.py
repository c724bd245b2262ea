"""Follows running queries: tells of each batch in one line, and ends all queries when one fails.

Spark waits no longer than ten seconds for the Python process that describes an operator's state. On a busy machine that
is too short, so a query that fails by it is started again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pipeline.errors import JobFailedError
from pipeline.hadoop import SPARK_ERRORS, cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MAX_STARTS: Final = 10
_POLL_SECONDS: Final = 0.5
_SLOW_PYTHON: Final = "Python worker failed to connect back"


class Summaries:
    """The lines of a query's batches, each told once."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def new_lines(self, query: StreamingQuery) -> list[str]:
        """Return the lines of the batches since the last call."""
        lines = []
        for progress in query.recentProgress:
            at = progress.timestamp
            if at <= self._told.get(query.name, ""):
                continue
            self._told[query.name] = at
            counts = counted(progress)
            if any(counts.values()):
                lines.append(f"{query.name}, batch {progress.batchId}: {in_words(counts)}")
        return lines


def counted(progress: StreamingQueryProgress) -> dict[str, int]:
    """Return the counts of a batch by name: lines read, lines in quarantine, duplicates, late rows, observed counts."""
    counts = {"lines read": progress.numInputRows or 0}
    for observed in progress.observedMetrics.values():
        counts |= {name: value or 0 for name, value in observed.asDict().items()}
    operators = progress.stateOperators
    counts["late rows dropped"] = max(
        (each.numRowsDroppedByWatermark for each in operators), default=0
    )
    counts["duplicates dropped"] = sum(
        each.customMetrics.get("numDroppedDuplicateRows", 0) for each in operators
    )
    return counts


def in_words(counts: dict[str, int]) -> str:
    """Return the counts that are not zero, in words."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


class _Running:
    """A query, and how to start it again."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._starts = 1
        self.query = start()

    def fail(self, error: StreamingQueryException) -> None:
        """Start the query again if Python was slow. Raises JobFailedError if it was not, or too often."""
        if _SLOW_PYTHON not in str(error) or self._starts == MAX_STARTS:
            raise JobFailedError(_words(f"The query {self.query.name}", error)) from error
        self._starts += 1
        self.query = self._start()


def follow(starts: Sequence[Callable[[], StreamingQuery]], tell: Callable[[str], None]) -> None:
    """Start the queries and return when all have ended; `tell` gets a line for each batch.

    Raises JobFailedError if one fails.
    """
    summaries = Summaries()
    running: list[_Running] = []
    try:
        for start in starts:
            running.append(_Running(start))  # noqa: PERF401 - those that run are stopped if one cannot start
        active = True
        while active:
            time.sleep(_POLL_SECONDS)
            active = False
            for each in running:
                active |= each.query.isActive  # asked first: the last batch is told of
                for line in summaries.new_lines(each.query):
                    tell(line)
                error = each.query.exception()
                if error is not None:
                    each.fail(error)
                    active = True
    except SPARK_ERRORS as error:
        raise JobFailedError(_words("The stream", error)) from error
    finally:
        for each in running:
            each.query.stop()


def _words(subject: str, error: Exception) -> str:
    return f"{subject} failed: {cause_of(error)}. Start it again: nothing is lost or counted twice"
