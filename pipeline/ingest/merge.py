"""Joins new rows with those of a table: no key twice, clustered by client.

Rules:
- A row is identified by instance, boot, family and seq (`pipeline.schema.KEY`).
- The same row twice is a duplicate and is dropped. The same key with other content is a conflict: the row of the table
  stays, else the one of the first file; the others go to quarantine.
- Rows of one client lie together, sorted by time: jobs that group by client read long runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.ingest.quality import Reason
from pipeline.schema import FAMILIES
from pipeline.tables import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITER: Final = ("instance", "boot")
_CLIENT_GROUPS: Final = 8
"""Most files of one hour."""


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
