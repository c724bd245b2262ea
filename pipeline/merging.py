"""Rows of many batches become few: partial sums of rollups are added up, ranges of sequence numbers are joined.

Rules:
- Only rows of settled batches are merged; the others stay as they are. What is merged gets the batch 0: all readers,
  also those that began before the last batch ended, see it.
- Merging twice changes nothing more.
- Days that are kept no longer leave one range of each writer, from 1 to its last number there: their rows are not
  lost. A process that has no row in any kept day is forgotten.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.rollups import coarser

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import DataFrame

MERGED: Final = 0
"""The batch of rows that are merged."""
_WRITER: Final = ("family", "instance", "boot")
_PLACE: Final = ("family", "dt", "hour", "instance", "boot", "is_row")


def merge_rollup(rows: DataFrame, step_ms: int, settled: int) -> DataFrame:
    """Return the rows of a rollup with one for each step and names, of those of batches up to `settled`."""
    old = sf.col("batch") <= settled
    merged = coarser(rows.where(old), step_ms).withColumn("batch", sf.lit(MERGED).cast("bigint"))
    kinds = {each.name: each.dataType for each in rows.schema}
    merged = merged.select(*(sf.col(name).cast(kind).alias(name) for name, kind in kinds.items()))
    return merged.unionByName(rows.where(~old)).hint("rebalance", "dt")


def merge_sequences(rows: DataFrame, first_day: date | None, settled: int) -> DataFrame:
    """Return ranges of the table `sequences`, those of batches up to `settled` as few as they can be."""
    old = rows.where(sf.col("batch") <= settled).withColumn("is_row", sf.col("rows") > 0)
    parts = [rows.where(sf.col("batch") > settled)]
    if first_day is not None:
        by_start = Window.partitionBy("instance", "boot")
        last_day = sf.max("dt").over(by_start)
        is_aged = sf.col("dt") < sf.lit(first_day)
        aged_to = sf.max(sf.when(is_aged, sf.col("last_seq"))).over(Window.partitionBy(*_WRITER))
        old = (
            old.withColumn("last_day", last_day)
            .where(sf.col("last_day").isNull() | (sf.col("last_day") >= sf.lit(first_day)))
            .withColumn("aged_to", aged_to)
            .withColumn(
                "is_aged",
                sf.coalesce(is_aged, sf.col("last_seq") <= sf.col("aged_to"), sf.lit(False)),
            )
        )
        parts.append(_forgotten(old.where("is_aged"), first_day).select(*rows.columns))
        old = old.where(~sf.col("is_aged"))
    parts.append(_joined(old).select(*rows.columns))
    found, *others = parts
    for each in others:
        found = found.unionByName(each)
    return found


def _forgotten(aged: DataFrame, first_day: date) -> DataFrame:
    """Return one range of each writer for all of its aged ones."""
    return aged.groupBy(*_WRITER).agg(
        sf.lit(first_day - timedelta(days=1)).alias("dt"),
        sf.lit(0).alias("hour"),
        sf.lit(1).cast("bigint").alias("first_seq"),
        sf.max("last_seq").alias("last_seq"),
        sf.max("last_seq").alias("rows"),
        sf.min("first_ms").alias("first_ms"),
        sf.max_by("last_ms", "last_seq").alias("last_ms"),
        sf.lit(MERGED).cast("bigint").alias("batch"),
    )


def _joined(ranges: DataFrame) -> DataFrame:
    """Return ranges that go on where another one of their hour ends, in number and time, as one with it."""
    in_order = Window.partitionBy(*_PLACE).orderBy("first_seq", "last_seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    goes_on = sf.col("first_seq") <= sf.max("last_seq").over(before) + 1
    is_back = sf.coalesce(sf.col("first_ms") < sf.lag("last_ms").over(in_order), sf.lit(False))
    begins = sf.when(goes_on & ~is_back, 0).otherwise(1)
    return (
        ranges.withColumn("begins", begins)
        .withColumn("range", sf.sum("begins").over(in_order))
        .groupBy(*_PLACE, "range")
        .agg(
            sf.min("first_seq").alias("first_seq"),
            sf.max("last_seq").alias("last_seq"),
            sf.sum("rows").alias("rows"),
            sf.min("first_ms").alias("first_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.lit(MERGED).cast("bigint").alias("batch"),
        )
    )
