"""How long requests waited in each stage: percentiles and sums of merged histograms, computed by Spark.

Rules:
- The buckets are those of the usage log: bucket i holds times of at most 2^(i/8) microseconds.
- A percentile is the edge of its bucket, as in Sluice's telemetry; a sum takes each time as the middle of its bucket.
- There is a row for each group and stage, so millions of groups are sorted and spilled as other rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from pipeline.rollups import buckets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

PER_DOUBLING: Final = 8
"""How many buckets there are from one time to the double of it."""


def waits(
    rows: DataFrame, stages: Sequence[str], by: Sequence[str], quantiles: Mapping[str, float]
) -> DataFrame:
    """Return the waits of rows of the family `api`, which have the columns of a rollup, by these columns and `stage`.

    `waited` counts the times, `total_us` is their sum, and the quantiles (each above 0, at most 1) have the given
    names; all in microseconds. A stage without times has no row.
    """
    of_stage = Window.partitionBy(*by, "stage")
    counted = buckets(rows, stages, by).withColumns(
        {
            "seen": sf.sum("count").over(of_stage.orderBy("bucket")),
            "all": sf.sum("count").over(of_stage),
        }
    )
    edge = _edge_us(sf.col("bucket"))
    middle = sf.when(sf.col("bucket") > 0, (edge + _edge_us(sf.col("bucket") - 1)) / 2)
    return counted.groupBy(*by, "stage").agg(
        sf.max("all").alias("waited"),
        *(
            sf.min(sf.when(sf.col("seen") >= sf.lit(share) * sf.col("all"), edge)).alias(name)
            for name, share in quantiles.items()
        ),
        sf.sum(sf.coalesce(middle, sf.lit(0.0)) * sf.col("count")).alias("total_us"),
    )


def _edge_us(bucket: Column) -> Column:
    return sf.pow(sf.lit(2.0), bucket / sf.lit(PER_DOUBLING))
