"""Tells of each batch in one line: what was read, what was left out and why, what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


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
