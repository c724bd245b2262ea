"""Histograms of the family `api`: merged by adding the counts of each bucket, and their percentiles.

Rules:
- The buckets are those of the usage log: bucket i holds times of at most 2^(i/8) microseconds, see `edge_us`.
- A merged histogram is one column, `buckets`: structs of bucket and count in the order of the buckets, counts not 0.
- Everything is SQL: no Python runs for a row.
- Quantiles and totals are computed as Sluice's own telemetry does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.schema import STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

PER_DOUBLING: Final = 8
"""How many buckets there are from one time to the double of it."""


def merged(rows: DataFrame, by: Sequence[str], stages: Sequence[str] = STAGES) -> DataFrame:
    """Return the columns `by`, stage and buckets: the histogram of each stage that a request of the group had.

    `rows` are of the family `api`.
    """
    pairs = ", ".join(f"'{stage}', {stage}_i, {stage}_n" for stage in stages)
    stacked = rows.select(
        *by, sf.expr(f"stack({len(stages)}, {pairs}) as (stage, indexes, counts)")
    )
    entries = stacked.where(sf.size("indexes") > 0).select(
        *by, "stage", sf.inline(sf.arrays_zip("indexes", "counts")).alias("bucket", "count")
    )
    summed = entries.groupBy(*by, "stage", "bucket").agg(sf.sum("count").alias("count"))
    entry = sf.struct("bucket", "count")
    return summed.groupBy(*by, "stage").agg(sf.sort_array(sf.collect_list(entry)).alias("buckets"))


def edge_us(bucket: Column) -> Column:
    """Return the upper edge of a bucket, in microseconds."""
    return sf.pow(sf.lit(2.0), bucket / PER_DOUBLING)


def count_of(buckets: Column) -> Column:
    """Return how many times a merged histogram holds."""
    return sf.aggregate(buckets, sf.lit(0).cast("bigint"), lambda sum_, each: sum_ + each["count"])


def quantile_us(buckets: Column, share: float) -> Column:
    """Return the `share` quantile (0 to 1) in microseconds: the upper edge of its bucket; 0 for no times."""
    rank = sf.lit(share) * count_of(buckets)
    start = sf.struct(sf.lit(0).cast("bigint").alias("seen"), sf.lit(-1).alias("at"))

    def step(state: Column, each: Column) -> Column:
        seen = state["seen"] + each["count"]
        is_found = (state["at"] < 0) & (seen >= rank)
        return sf.struct(
            seen.alias("seen"), sf.when(is_found, each["bucket"]).otherwise(state["at"]).alias("at")
        )

    found = sf.aggregate(buckets, start, step)["at"]
    return sf.when((found < 0) | (rank == 0), sf.lit(0.0)).otherwise(edge_us(found))


def total_us(buckets: Column) -> Column:
    """Return the sum of all times in microseconds, each as the middle of its bucket; accurate to a few per cent."""
    return sf.aggregate(
        buckets,
        sf.lit(0.0),
        lambda sum_, each: (
            sum_
            + sf.when(each["bucket"] > 0, each["count"] * _middle_us(each["bucket"])).otherwise(0.0)
        ),
    )


def _middle_us(bucket: Column) -> Column:
    return (edge_us(bucket) + edge_us(bucket - 1)) / 2
