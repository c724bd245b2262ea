"""The rows of tables by their writers: no key twice, and which sequence numbers are there or missing.

Rules:
- A row is identified by instance, boot, family and seq (`pipeline.schema.KEY`).
- The same row twice is a duplicate and is dropped. The same key with other content is a conflict: the row of the table
  stays, else the one of the first file; the others go to quarantine.
- Rows of one client lie together, sorted by time: jobs that group by client read long runs.
- `seq` counts from 1 without gaps in (instance, boot, family). A missing number is a lost row, also before the first.
- The table `sequences` has the unbroken ranges of each writer by hour, so that gaps of all time are found without
  reading all rows again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.ingest.quality import Reason
from pipeline.schema import FAMILIES
from pipeline.tables import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec


WRITER: Final = ("instance", "boot")
_CLIENT_GROUPS: Final = 8
"""Most files of one hour."""

SEQUENCES: Final = (
    "family",
    "dt",
    "hour",
    *WRITER,
    "first_seq",
    "last_seq",
    "rows",
    "first_ms",
    "last_ms",
)
"""The columns of the table `sequences`."""


def count_repeats(rows: DataFrame) -> int:
    """Return how many rows have a key that another row has: duplicates and conflicts together."""
    by_bucket = rows.groupBy(*WRITER, sf.bitmap_bucket_number("seq").alias("bucket")).agg(
        sf.count("*").alias("rows"),
        sf.bitmap_count(sf.bitmap_construct_agg(sf.bitmap_bit_position("seq"))).alias("keys"),
    )
    found = by_bucket.agg(sf.sum(sf.col("rows") - sf.col("keys"))).first()
    return int(found[0] or 0) if found else 0


def without_repeats(rows: DataFrame, family: str) -> DataFrame:
    """Return each key once, and each conflict with the reason and the row as its line.

    `rows` has the columns of the family, dt, hour, day and file; a row of the table has no file.
    """
    columns = FAMILIES[family].names
    content = sf.hash(*columns)
    same_key = Window.partitionBy(*WRITER, "seq").orderBy(
        sf.col("file").asc_nulls_first(), content, sf.xxhash64(*columns)
    )
    row = sf.struct(*columns)
    ranked = rows.withColumn("rank", sf.row_number().over(same_key)).withColumn(
        "previous", sf.first(row).over(same_key)
    )
    return (
        ranked.where((sf.col("rank") == 1) | ~row.eqNullSafe(sf.col("previous")))
        .withColumn("reason", sf.when(sf.col("rank") > 1, str(Reason.CONFLICT)))
        .withColumn("line", sf.when(sf.col("rank") > 1, sf.to_json(row)))
        .drop("rank", "previous")
    )


def clustered(rows: DataFrame) -> DataFrame:
    """Return the rows in the order in which they are written."""
    client = [name for name in ("user", "client_id", "topic") if name in rows.columns]
    group = sf.pmod(sf.hash(*client), sf.lit(_CLIENT_GROUPS)) if client else sf.lit(0)
    return rows.repartition(*PARTITIONS, group).sortWithinPartitions(
        *PARTITIONS, *client, "instance", "ts_ms", "seq"
    )


def ranges(rows: DataFrame) -> DataFrame:
    """Return dt, hour, instance, boot, first_seq, last_seq, rows, first_ms and last_ms of each unbroken range.

    `rows` has no key twice. Only stretches with a gap are sorted; all others are counted.
    """
    stretch = [*PARTITIONS, *WRITER, "stretch"]
    narrow = rows.select(
        *PARTITIONS, *WRITER, "seq", "ts_ms", sf.bitmap_bucket_number("seq").alias("stretch")
    )
    counted = narrow.groupBy(*stretch).agg(*_range())
    is_whole = sf.col("last_seq") - sf.col("first_seq") + 1 == sf.col("rows")
    torn = counted.where(~is_whole).select(*stretch)
    sorted_by_seq = Window.partitionBy(*stretch).orderBy("seq")
    run = sf.col("seq") - sf.row_number().over(sorted_by_seq)
    pieces = (
        narrow.join(sf.broadcast(torn), stretch, "left_semi")
        .withColumn("run", run)
        .groupBy(*stretch, "run")
        .agg(*_range())
        .drop("run")
    )
    return counted.where(is_whole).unionByName(pieces).drop("stretch")


def gaps(sequences: DataFrame) -> DataFrame:
    """Return instance, boot, family, first_seq, last_seq and lost of each missing stretch."""
    before = sf.coalesce(sf.max("last_seq").over(_earlier()), sf.lit(0))
    return (
        sequences.withColumn("before", before)
        .where(sf.col("first_seq") > sf.col("before") + 1)
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
    before_ms = sf.max("last_ms").over(_earlier())
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
    spans = sequences.groupBy(*WRITER).agg(
        sf.min("first_ms").alias("first_ms"), sf.max("last_ms").alias("last_ms")
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


def _range() -> tuple[Column, ...]:
    return (
        sf.min("seq").alias("first_seq"),
        sf.max("seq").alias("last_seq"),
        sf.count("*").alias("rows"),
        sf.min("ts_ms").alias("first_ms"),
        sf.max("ts_ms").alias("last_ms"),
    )


def _earlier() -> WindowSpec:
    by_seq = Window.partitionBy(*WRITER, "family").orderBy("first_seq")
    return by_seq.rowsBetween(Window.unboundedPreceding, -1)
