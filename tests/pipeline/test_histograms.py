"""Histograms in Spark: the same figures as those of the telemetry that wrote them."""

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from pipeline import histograms
from pipeline.schema import STAGES
from proxy.core.stats import histogram
from tests.support.usage_rows import frame, numbered, usage_row

SHARES = (0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 1.0)


def test_merged_histograms_have_the_quantiles_of_the_telemetry(spark: SparkSession) -> None:
    """For 300 groups of one to five rows: quantiles, totals and counts are those of the added-up lists."""
    draw = random.Random(7)
    dense: dict[tuple[str, str], list[int]] = {}
    rows = []
    for group in range(300):
        for _ in range(draw.randint(1, 5)):
            columns: dict[str, object] = {}
            for stage in STAGES:
                size = draw.choice((0, 1, 1, 3, 30))
                buckets = sorted(draw.sample(range(histogram.BUCKETS), size))
                counts = [draw.choice((1, 2, draw.randint(1, 10**9))) for _ in buckets]
                columns |= {f"{stage}_i": buckets, f"{stage}_n": counts}
                for bucket, count in zip(buckets, counts, strict=True):
                    sums = dense.setdefault((f"u{group}", stage), [0] * histogram.BUCKETS)
                    sums[bucket] += count
            rows.append(usage_row("api", user=f"u{group}", **columns))
    merged = histograms.merged(frame(spark, "api", numbered(rows)), ["user"])
    buckets = col("buckets")
    quantiles = [histograms.quantile_us(buckets, share) for share in SHARES]
    found = merged.select(
        "user",
        "stage",
        histograms.count_of(buckets),
        histograms.total_us(buckets),
        *quantiles,
    ).collect()

    assert {(row[0], row[1]) for row in found} == dense.keys()
    for user, stage, count, total_us, *of_shares in found:
        counts = dense[user, stage]
        assert count == sum(counts)
        assert total_us == pytest.approx(histogram.total_us(counts))
        expected = [histogram.quantile_us(counts, share) for share in SHARES]
        assert of_shares == pytest.approx(expected, rel=1e-12)


def test_no_times_have_no_quantile(spark: SparkSession) -> None:
    """An empty histogram's figures are 0, as in the telemetry."""
    empty = spark.createDataFrame([([],)], "buckets array<struct<bucket: int, count: bigint>>")
    buckets = col("buckets")
    row = empty.select(
        histograms.quantile_us(buckets, 0.5),
        histograms.total_us(buckets),
        histograms.count_of(buckets),
    ).first()

    assert row is not None
    assert tuple(row) == (0.0, 0.0, 0)
