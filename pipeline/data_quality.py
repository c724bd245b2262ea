"""The line about missing and refused rows that a job prints when there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from pipeline import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quality_line(spark: SparkSession, uri: str, family: str) -> str:
    """Return what `ingest` found wrong with the rows of a family, in words; empty if nothing."""
    words = []
    gaps = tables.maybe_read(spark, uri, "gaps")
    if gaps is not None:
        lost = gaps.where(sf.col("family") == family).agg(sf.sum("lost"), sf.count("*")).first()
        if lost is not None and lost[0]:
            words.append(f"{lost[0]:,} rows lost in {lost[1]:,} gaps")
    quarantine = tables.maybe_read(spark, uri, "quarantine")
    if quarantine is not None:
        refused = quarantine.where(sf.col("family") == family).count()
        if refused:
            words.append(f"{refused:,} lines quarantined")
    return f"data quality, family {family}: {', '.join(words)}" if words else ""
