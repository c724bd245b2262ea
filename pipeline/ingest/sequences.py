"""The sequence numbers of the writers: the unbroken ranges that are there, and what is missing between them.

Rules:
- `seq` counts from 1 without gaps in (instance, boot, family). A missing number is a lost row, also before the first.
- A range has numbers without a gap, of one hour, in whose order the times do not go back. So gaps of all time and steps
  of the clock are found without reading the rows again.
- A line in quarantine whose number can be read is not lost: it is a range of 0 rows. Such a range fills gaps, and is
  never the end of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.schema import FAMILIES, PARTITIONS, SEQUENCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITER: Final = ("instance", "boot")
_PLACE: Final = ("family", *PARTITIONS, *WRITER, "is_row")
_LINE: Final = "family string, instance string, boot string, seq bigint"


def numbers(rows: DataFrame, family: str) -> DataFrame:
    """Return what `ranges` needs of the rows of a family."""
    return rows.select(
        sf.lit(family).alias("family"),
        *PARTITIONS,
        *WRITER,
        "seq",
        "ts_ms",
        sf.lit(True).alias("is_row"),
    )


def refused_numbers(quarantine: DataFrame) -> DataFrame:
    """Return the same of lines in quarantine, as far as it can be read."""
    line = quarantine.select(sf.from_json("line", _LINE).alias("row")).select("row.*").dropna()
    there = line.where(sf.col("family").isin(*FAMILIES) & (sf.col("seq") > 0)).distinct()
    return there.select(
        "family",
        sf.lit(None).cast("date").alias("dt"),
        sf.lit(None).cast("int").alias("hour"),
        *WRITER,
        "seq",
        sf.lit(None).cast("bigint").alias("ts_ms"),
        sf.lit(False).alias("is_row"),
    )


def ranges(found: DataFrame) -> DataFrame:
    """Return the unbroken ranges of numbers, of which none is there twice, as rows of the table `sequences`.

    Rows are counted by writer and second. Only seconds with a gap are sorted.
    """
    second = [*_PLACE, "ts_ms"]
    bounds = (sf.min("seq").alias("first_seq"), sf.max("seq").alias("last_seq"))
    seconds = found.groupBy(*second).agg(*bounds, sf.count("*").alias("rows"))
    is_whole = sf.col("last_seq") - sf.col("first_seq") + 1 == sf.col("rows")
    torn = seconds.where(~is_whole).select(*second)
    if not torn.isEmpty():
        same = [found[name].eqNullSafe(torn[name]) for name in second]
        run = sf.col("seq") - sf.row_number().over(Window.partitionBy(*second).orderBy("seq"))
        pieces = (
            found.join(torn, same, "left_semi")
            .withColumn("run", run)
            .groupBy(*second, "run")
            .agg(*bounds, sf.count("*").alias("rows"))
            .drop("run")
        )
        seconds = seconds.where(is_whole).unionByName(pieces)
    in_order = Window.partitionBy(*_PLACE).orderBy("first_seq")
    goes_on = (sf.col("first_seq") == sf.lag("last_seq").over(in_order) + 1) & ~sf.coalesce(
        sf.col("ts_ms") < sf.lag("ts_ms").over(in_order), sf.lit(False)
    )
    begun = seconds.withColumn("begins", sf.when(goes_on, 0).otherwise(1))
    return (
        begun.withColumn("range", sf.sum("begins").over(in_order))
        .groupBy(*_PLACE, "range")
        .agg(
            sf.min("first_seq").alias("first_seq"),
            sf.max("last_seq").alias("last_seq"),
            sf.sum(sf.when(sf.col("is_row"), sf.col("rows")).otherwise(0)).alias("rows"),
            sf.min("ts_ms").alias("first_ms"),
            sf.max("ts_ms").alias("last_ms"),
        )
        .select(*(name for name in SEQUENCES.names if name != "batch"))
    )


def gaps(sequences: DataFrame) -> DataFrame:
    """Return instance, boot, family, first_seq, last_seq and lost of each missing stretch."""
    writer = Window.partitionBy(*WRITER, "family")
    before = writer.orderBy("first_seq", "last_seq").rowsBetween(Window.unboundedPreceding, -1)
    last_row = sf.max(sf.when(sf.col("rows") > 0, sf.col("last_seq"))).over(writer)
    return (
        sequences.withColumn("before", sf.coalesce(sf.max("last_seq").over(before), sf.lit(0)))
        .withColumn("last_row", last_row)
        .where(sf.col("first_seq") > sf.col("before") + 1)
        .where(sf.col("first_seq") <= sf.col("last_row"))
        .select(
            *WRITER,
            "family",
            (sf.col("before") + 1).alias("first_seq"),
            (sf.col("first_seq") - 1).alias("last_seq"),
            (sf.col("first_seq") - 1 - sf.col("before")).alias("lost"),
        )
    )


def clock_jumps(sequences: DataFrame) -> DataFrame:
    """Return instance, boot, family, at_ms and back_ms of each range that begins before an earlier one ends."""
    by_seq = Window.partitionBy(*WRITER, "family").orderBy("first_seq")
    before_ms = sf.max("last_ms").over(by_seq.rowsBetween(Window.unboundedPreceding, -1))
    return (
        sequences.withColumn("before_ms", before_ms)
        .where(sf.col("first_ms") < sf.col("before_ms"))
        .select(
            *WRITER,
            "family",
            sf.col("before_ms").alias("at_ms"),
            (sf.col("before_ms") - sf.col("first_ms")).alias("back_ms"),
        )
    )


def overlaps(sequences: DataFrame) -> DataFrame:
    """Return instance, boot, other_boot, first_ms, last_ms where two starts of one instance have rows at one time."""
    spans = (
        sequences.where(sf.col("rows") > 0)
        .groupBy(*WRITER)
        .agg(sf.min("first_ms").alias("first_ms"), sf.max("last_ms").alias("last_ms"))
    )
    ordered = Window.partitionBy("instance").orderBy("first_ms", "boot")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    latest = sf.max(sf.struct("last_ms", "boot")).over(before)
    return (
        spans.withColumn("latest", latest)
        .where(sf.col("first_ms") <= sf.col("latest.last_ms"))
        .select(
            "instance",
            "boot",
            sf.col("latest.boot").alias("other_boot"),
            "first_ms",
            sf.least("last_ms", "latest.last_ms").alias("last_ms"),
        )
    )
