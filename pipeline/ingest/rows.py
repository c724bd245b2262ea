"""The rows of one family in a batch: each key once, also if a file was delivered twice.

Rules:
- A row is identified by instance, boot, family and seq (`pipeline.schema.KEY`).
- The same row twice is a duplicate and is dropped. The same key with other content is a conflict: the row of the table
  stays, else the one of the first file; the others go to quarantine.
- Only stretches of numbers that are there twice are compared row by row, and only hours of the table with such numbers
  are read: the table `sequences` tells which.
- Rows of one client lie together, sorted by time. A small hour is one file, a large one several by client.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as sf

from pipeline.ingest.quality import HOUR_MS, Reason
from pipeline.ingest.sequences import WRITER
from pipeline.schema import DATED, FAMILIES, PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROWS_OF_FILE: Final = 1_000_000
_STRETCHES: Final = "instance string, boot string, stretch bigint"
_STRETCH: Final = (*WRITER, "stretch")
_NEW: Final = f"family string, {_STRETCHES}, first_new bigint, last_new bigint, lines bigint"
_NEW_NAMES: Final = ("family", *_STRETCH, "first_new", "last_new", "lines")


class Found(NamedTuple):
    """The new rows of a family, its lines for the quarantine, and their figures. `compared` is what is persisted."""

    rows: DataFrame
    refused: DataFrame
    lines: int
    rows_added: int
    duplicates: int
    quarantined: dict[str, int]
    first_ms: int | None
    last_ms: int | None
    compared: DataFrame | None


def count(parsed: Mapping[str, DataFrame]) -> list[Row]:
    """Return the parsed lines of families by family and reason; those that are rows also by writer and stretch."""
    is_row = sf.col("reason").isNull()
    of_row = [sf.when(is_row, sf.col(name)).alias(name) for name in (*WRITER, "seq", "ts_ms")]
    narrow = [
        lines.select(sf.lit(family).alias("family"), "reason", *of_row)
        for family, lines in parsed.items()
    ]
    return (
        reduce(DataFrame.unionByName, narrow)
        .groupBy("family", "reason", *WRITER, sf.bitmap_bucket_number("seq").alias("stretch"))
        .agg(
            sf.count("*").alias("lines"),
            sf.bitmap_count(sf.bitmap_construct_agg(sf.bitmap_bit_position("seq"))).alias("keys"),
            sf.min("seq").alias("first_new"),
            sf.max("seq").alias("last_new"),
            sf.min("ts_ms").alias("first_ms"),
            sf.max("ts_ms").alias("last_ms"),
        )
        .collect()
    )


def repeated(counted: Sequence[Row], sequences: DataFrame | None) -> list[Row]:
    """Return the stretches that have a number twice, among the counted lines or with the table.

    For the latter `dt` and `hour` tell where the table has it.
    """
    good = [row for row in counted if row["reason"] is None]
    inside = [Row(**row.asDict(), dt=None, hour=None) for row in good if row["lines"] > row["keys"]]
    if sequences is None or not good:
        return inside
    rows = [tuple(row[name] for name in _NEW_NAMES) for row in good]
    new = sf.broadcast(sequences.sparkSession.createDataFrame(rows, _NEW))
    meets = (sf.col("first_seq") <= sf.col("last_new")) & (
        sf.col("first_new") <= sf.col("last_seq")
    )
    return inside + (
        sequences.where(sf.col("rows") > 0)
        .join(new, ["family", *WRITER])
        .where(meets)
        .select(*_NEW_NAMES, *PARTITIONS)
        .distinct()
        .collect()
    )


def new_rows(
    family: str,
    parsed: DataFrame,
    counted: Sequence[Row],
    again: Sequence[Row],
    before: DataFrame | None,
) -> Found:
    """Return what is new among parsed lines. `before` is the table before the batch; see `count` and `repeated`."""
    spark = parsed.sparkSession
    good = [row for row in counted if row["reason"] is None]
    quarantined: Counter[str] = Counter()
    for row in counted:
        if row["reason"] is not None:
            quarantined[row["reason"]] += row["lines"]
    columns = [*FAMILIES[family].names, *PARTITIONS]
    rows = parsed.where(sf.col("reason").isNull())
    refused = parsed.where(sf.col("reason").isNotNull())
    added = lines = sum(row["lines"] for row in good)
    compared = None
    if again:
        once = {tuple(row[name] for name in _STRETCH): row["lines"] for row in again}
        stretches = sf.broadcast(spark.createDataFrame(list(once), _STRETCHES))
        rows = rows.withColumn("stretch", sf.bitmap_bucket_number("seq"))
        twice = rows.join(stretches, list(_STRETCH), "left_semi")
        hours = sorted({(row["dt"], row["hour"]) for row in again if row["dt"] is not None})
        if hours and before is not None:
            touched = sf.broadcast(spark.createDataFrame(hours, DATED))
            there = before.join(touched, list(PARTITIONS), "left_semi")
            there = there.withColumn("stretch", sf.bitmap_bucket_number("seq"))
            there = there.join(stretches, list(_STRETCH), "left_semi")
            twice = twice.unionByName(there.select(*columns, "stretch"), allowMissingColumns=True)
        compared = _compared(twice, family).persist()
        found = {
            row["reason"]: row["count"] for row in compared.groupBy("reason").count().collect()
        }
        added = lines - sum(once.values()) + found.pop(None, 0)
        quarantined.update(found)
        rows = rows.join(stretches, list(_STRETCH), "left_anti").select(*columns)
        rows = rows.unionByName(compared.where(sf.col("reason").isNull()).select(*columns))
        conflicts = compared.where(sf.col("reason").isNotNull())
        refused = refused.unionByName(conflicts, allowMissingColumns=True)
    times = [row[name] for row in good for name in ("first_ms", "last_ms")]
    day = sf.col("day").alias("dt")
    return Found(
        rows.select(*columns),
        refused.select("reason", sf.lit(family).alias("family"), "file", "line", day),
        sum(row["lines"] for row in counted),
        added,
        lines - added - quarantined[Reason.CONFLICT],
        dict(quarantined),
        min(times, default=None),
        max(times, default=None),
        compared,
    )


def laid_out(found: Found) -> DataFrame:
    """Return the rows in the order and in the parts in which they are written."""
    rows, count = found.rows, found.rows_added
    client = [name for name in ("user", "client_id", "topic") if name in rows.columns]
    hours = ((found.last_ms or 0) - (found.first_ms or 0)) // HOUR_MS + 1
    files_of_hour = count // hours // ROWS_OF_FILE + 1
    group = sf.pmod(sf.hash(*client), sf.lit(files_of_hour)) if client else sf.lit(0)
    return rows.repartition(count // ROWS_OF_FILE + 1, *PARTITIONS, group).sortWithinPartitions(
        *PARTITIONS, *client, "instance", "ts_ms", "seq"
    )


def _compared(twice: DataFrame, family: str) -> DataFrame:
    """Return each new key once, and each conflict with its reason and its line. A row of the table has no file."""
    columns = FAMILIES[family].names
    same_key = Window.partitionBy(*WRITER, "seq").orderBy(
        sf.col("file").asc_nulls_first(), sf.hash(*columns), sf.xxhash64(*columns)
    )
    row = sf.struct(*columns)
    is_first = sf.col("rank") == 1
    return (
        twice.withColumn("rank", sf.row_number().over(same_key))
        .withColumn("previous", sf.first(row).over(same_key))
        .where(sf.col("file").isNotNull() & (is_first | ~row.eqNullSafe(sf.col("previous"))))
        .withColumn("reason", sf.when(~is_first, str(Reason.CONFLICT)))
        .withColumn("line", sf.when(~is_first, sf.to_json(row)))
        .drop("rank", "previous")
    )
