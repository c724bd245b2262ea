"""The figures of pools and losses from made-up rows."""

from pyspark.sql import SparkSession

from pipeline.report.facts import PoolUse
from pipeline.report.wait_facts import pools_of, quality_of
from pipeline.tables import MissingRows
from tests.support.pipeline.report_facts import empty_facts
from tests.support.telemetry.usage_rows import START_MS, frame, usage_row


def test_pools_are_those_of_the_fullest_instance(spark: SparkSession) -> None:
    """Use is a share of the pool's size; a pool without a size is not divided by."""
    size = {"request_pool_size_bytes": 100, "response_pool_size_bytes": 0}
    rows = [
        usage_row("instance", request_pool_used_bytes=20, request_pool_depleted_ms=5, **size),
        usage_row("instance", request_pool_used_bytes=70, request_pool_depleted_ms=1, **size),
        usage_row("instance", request_pool_used_bytes=99, ts_ms=START_MS - 60_000, **size),
    ]

    pools = pools_of(frame(spark, "instance", rows), empty_facts().scope)

    assert pools == (PoolUse(START_MS, "requests", 0.7, 6), PoolUse(START_MS, "replies", 0.0, 0))


def test_losses_are_counted_by_start(spark: SparkSession) -> None:
    """Totals count from the start of a process, so the last of each start is added."""
    rows = [
        usage_row("instance", boot=boot, rows_dropped_total=rows, spans_dropped_total=spans)
        for boot, rows, spans in (("b1", 1, 0), ("b1", 5, 2), ("b2", 7, 0))
    ]
    families = {"instance": frame(spark, "instance", rows)}

    quality = quality_of(families, MissingRows(3, 1, {"torn": 2, "unknown_version": 1}), 4)

    assert quality.rows == {"instance": 3}
    assert (quality.lost, quality.duplicates) == (3, 4)
    assert quality.quarantined == {"torn": 2, "unknown version": 1}
    assert (quality.rows_dropped, quality.spans_dropped) == (12, 2)
    assert not quality.is_clean
    assert quality_of({}, MissingRows(0, 0, {}), None).is_clean
