"""Waits: quantiles and sums of merged histograms are those of the telemetry's own histogram."""

import random
from typing import Final

import pytest
from pyspark.sql import SparkSession

from pipeline.rollups import unrolled
from pipeline.waits import waits
from proxy.core.stats import histogram
from tests.support.telemetry.usage_rows import Row, frame, usage_row

SHARES: Final = {"least": 0.001, "quarter": 0.25, "p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
CLIENTS: Final = 40


def test_merged_histograms_have_the_figures_of_the_telemetry(spark: SparkSession) -> None:
    """Of 300 rows of 40 clients: some have no times at all, and some counts are very large."""
    draw = random.Random(7)
    dense: dict[tuple[str, str], list[int]] = {}
    rows: list[Row] = []
    for _ in range(300):
        client_id = f"c{draw.randrange(CLIENTS)}"
        row = usage_row("api", client_id=client_id)
        for stage in ("upstream", "purgatory"):
            held = sorted(draw.sample(range(histogram.BUCKETS), draw.choice((0, 1, 1, 3, 30))))
            counts = [draw.choice((1, 2, draw.randint(1, 10**9))) for _ in held]
            row[f"{stage}_i"], row[f"{stage}_n"] = held or draw.choice(([], None)), counts
            if not row[f"{stage}_i"]:
                row[f"{stage}_n"] = row[f"{stage}_i"]
            sums = dense.setdefault((client_id, stage), [0] * histogram.BUCKETS)
            for bucket, count in zip(held, counts, strict=True):
                sums[bucket] += count
        rows.append(row)
    api = unrolled("api", frame(spark, "api", rows))
    found = waits(api, ("upstream", "purgatory"), ["client_id"], SHARES).collect()

    expected = {key: sums for key, sums in dense.items() if any(sums)}
    assert {(row["client_id"], row["stage"]) for row in found} == set(expected)
    assert len(found) == len(expected)
    for row in found:
        sums = expected[row["client_id"], row["stage"]]
        assert row["waited"] == sum(sums)
        assert row["total_us"] == pytest.approx(histogram.total_us(sums))
        for name, share in SHARES.items():
            exact = histogram.quantile_us(sums, share)
            assert row[name] == pytest.approx(exact, rel=1e-12)
