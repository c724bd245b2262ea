"""A part of the time that a job is for."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TimeRange(NamedTuple):
    """Rows from `first_ms` to before `end_ms`; None is open."""

    first_ms: int | None = None
    end_ms: int | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the span, of a table with its columns `ts_ms` and `dt`."""
        rows = self.days_of(rows)
        if self.first_ms is not None:
            rows = rows.where(sf.col("ts_ms") >= self.first_ms)
        if self.end_ms is not None:
            rows = rows.where(sf.col("ts_ms") < self.end_ms)
        return rows

    def days_of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the days of the span, by the column `dt`; folders of other days are not read."""
        if self.first_ms is not None:
            rows = rows.where(sf.col("dt") >= _day(self.first_ms))
        if self.end_ms is not None:
            rows = rows.where(sf.col("dt") <= _day(self.end_ms))
        return rows

    def overlaps(self, first_ms: int, last_ms: int) -> bool:
        """Return whether a row between these times, both included, may be of the span."""
        return (self.first_ms is None or last_ms >= self.first_ms) and (
            self.end_ms is None or first_ms < self.end_ms
        )


def _day(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()
