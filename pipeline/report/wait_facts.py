"""The figures of waiting, of the instances' memory pools, and of the data: losses, rows that were set aside.

Waits are from the histograms of the family `api`; those for a quota include the pauses after requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as sf

from pipeline.report.facts import ClientName, DataQuality, PoolUse, StageTime, Wait
from pipeline.report.usage_facts import CLIENT, bin_length_ms, of_clients
from pipeline.schema import STAGES
from pipeline.waits import waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from pipeline.report.facts import Scope
    from pipeline.tables import MissingRows


WAITED: Final = ("throttle", "purgatory")
"""The stages whose waits are listed."""

POOLS: Final = {"request": "requests", "response": "replies"}
POOL_BINS: Final = 150


class StageFigures(NamedTuple):
    """The times of one name in one stage, in microseconds; percentiles are upper edges of buckets."""

    name: str
    stage: str
    requests: int
    p50_us: float
    p99_us: float
    max_us: float
    total_us: float


def by_api(api: DataFrame) -> list[StageFigures]:
    """Return the figures of each API and stage."""
    return [StageFigures(name, *row) for (name,), row in _figures(api, ("api",), STAGES)]


def by_client(api: DataFrame, clients: Mapping[ClientName, str]) -> list[StageFigures]:
    """Return the figures of each of the clients, by the given name, and stage of WAITED."""
    if not clients:
        return []
    found = _figures(of_clients(api, clients), CLIENT, WAITED)
    return [StageFigures(clients[ClientName(*names)], *row) for names, row in found]


def waits_of(by: str, figures: list[StageFigures]) -> tuple[Wait, ...]:
    """Return the percentiles of each name and stage of WAITED; `by` tells what the names are."""
    return tuple(
        Wait(
            each.stage,
            by,
            each.name,
            each.requests,
            each.p50_us / 1000,
            each.p99_us / 1000,
            each.max_us / 1000,
        )
        for each in sorted(figures)
        if each.stage in WAITED and each.requests
    )


def stages_of(figures: list[StageFigures]) -> tuple[StageTime, ...]:
    """Return the time in each stage of each API."""
    return tuple(StageTime(each.name, each.stage, each.total_us / 1000) for each in sorted(figures))


def _figures(
    api: DataFrame, keys: tuple[str, ...], stages: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, int, float, float, float, float]]]:
    """Yield the keys of each group, and a stage with the figures that follow it in StageFigures."""
    found = waits(api, stages, keys, {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0})
    figures = ("stage", "waited", "p50_us", "p99_us", "max_us", "total_us")
    for row in found.select(*keys, *figures).collect():
        yield tuple(row[: len(keys)]), tuple(row[len(keys) :])


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
    missing: MissingRows,
    duplicates: int | None,
) -> DataQuality:
    """Return the rows of each family, and what is missing or was set aside."""
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
        rows={family: _rows_of(frame) for family, frame in families.items()},
        lost=missing.lost,
        quarantined={
            reason.replace("_", " "): lines for reason, lines in missing.quarantined.items()
        },
        duplicates=duplicates,
        spans_dropped=spans,
        rows_dropped=rows,
    )


def _rows_of(rows: DataFrame) -> int:
    """Return how many rows of the usage log these are, or are in this rollup."""
    if "rows" not in rows.columns:
        return rows.count()
    ((count,),) = rows.agg(sf.sum("rows")).collect()
    return int(count or 0)
