"""One line about rows that are missing in the tables: every job prints it, because its figures lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from pipeline import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession


class MissingRows(NamedTuple):
    """Rows that are missing in all time, and lines in quarantine by reason, of the families of a job."""

    lost: int
    gaps: int
    quarantined: Mapping[str, int]

    @property
    def line(self) -> str | None:
        """Return a line for a person; None if nothing is missing."""
        parts = []
        if self.lost:
            parts.append(f"{self.lost:,} rows lost in {self.gaps:,} gaps of seq")
        if self.quarantined:
            each = ", ".join(
                f"{reason} {count:,}" for reason, count in sorted(self.quarantined.items())
            )
            parts.append(f"{sum(self.quarantined.values()):,} lines in quarantine ({each})")
        return f"data quality: {'; '.join(parts)}" if parts else None


def read_missing_rows(spark: SparkSession, uri: str, families: Sequence[str]) -> MissingRows:
    """Return the quality of these families, from the tables `gaps` and `quarantine`."""
    gaps = tables.maybe_read(spark, uri, "gaps")
    quarantine = tables.maybe_read(spark, uri, "quarantine")
    lost = count = 0
    if gaps is not None:
        found = gaps.where(sf.col("family").isin(*families))
        ((count, lost),) = found.agg(sf.count("*"), sf.sum("lost")).collect()
    reasons: dict[str, int] = {}
    if quarantine is not None:
        refused = quarantine.where(sf.col("family").isin(*families))
        reasons = {str(row[0]): int(row[1]) for row in refused.groupBy("reason").count().collect()}
    return MissingRows(int(lost or 0), count, reasons)
