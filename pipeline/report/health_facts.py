"""The figures of the instances themselves and of the data: memory pools, losses, rows that were set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.report.facts import DataQuality, PoolUse
from pipeline.report.usage_facts import bin_length_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pipeline.report.facts import Scope

POOLS: Final = {"request": "requests", "response": "replies"}
POOL_BINS: Final = 150


def pools_of(instance: DataFrame, scope: Scope) -> tuple[PoolUse, ...]:
    """Return the largest use of each pool of any instance over time."""
    step_ms = bin_length_ms(scope, POOL_BINS)
    at_ms = sf.col("ts_ms") - (sf.col("ts_ms") - scope.start_ms) % step_ms
    figures = []
    for pool in POOLS:
        used, size = sf.col(f"{pool}_pool_used_bytes"), sf.col(f"{pool}_pool_size_bytes")
        figures += [sf.max(sf.when(size > 0, used / size)), sf.sum(f"{pool}_pool_depleted_ms")]
    rows = instance.groupBy(at_ms.alias("at_ms")).agg(*figures).orderBy("at_ms").collect()
    return tuple(
        PoolUse(row[0], name, float(row[1 + 2 * place] or 0), int(row[2 + 2 * place] or 0))
        for row in rows
        for place, name in enumerate(POOLS.values())
        if row[0] >= scope.start_ms
    )


def quality_of(
    families: Mapping[str, DataFrame],
    gaps: DataFrame | None,
    quarantine: DataFrame | None,
    duplicates: int | None,
) -> DataQuality:
    """Return the rows of each family, and what is missing or was set aside."""
    lost = gaps.agg(sf.sum("lost")).collect()[0][0] if gaps is not None else 0
    aside = quarantine.groupBy("reason").count().collect() if quarantine is not None else []
    spans, rows = 0, 0
    if "instance" in families:
        by_start = families["instance"].groupBy("instance", "boot")
        last = by_start.agg(
            sf.max("spans_dropped_total").alias("spans"), sf.max("rows_dropped_total").alias("rows")
        )
        spans, rows = (
            int(each or 0) for each in last.agg(sf.sum("spans"), sf.sum("rows")).collect()[0]
        )
    return DataQuality(
        rows={family: frame.count() for family, frame in families.items()},
        lost=int(lost or 0),
        quarantined={row["reason"].replace("_", " "): row["count"] for row in aside},
        duplicates=duplicates,
        spans_dropped=spans,
        rows_dropped=rows,
    )
