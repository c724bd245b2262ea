"""The figures of waiting, from the histograms of the family `api`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as sf

from pipeline.histograms import count_of, merged, quantile_us, total_us
from pipeline.report.facts import ClientName, StageTime, Wait
from pipeline.report.usage_facts import CLIENT, of_clients

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

WAITED: Final = ("throttle", "purgatory")
"""The stages whose waits are listed."""


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
    return [
        StageFigures(*row) for row in _figures(merged(api, ["api"])).select("api", *_REST).collect()
    ]


def by_client(api: DataFrame, clients: Mapping[ClientName, str]) -> list[StageFigures]:
    """Return the figures of each of the clients, by the given name, and stage of WAITED."""
    if not clients:
        return []
    rows = (
        _figures(merged(of_clients(api, clients), CLIENT, WAITED)).select(*CLIENT, *_REST).collect()
    )
    return [StageFigures(clients[ClientName(*row[:2])], *row[2:]) for row in rows]


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


_REST: Final = StageFigures._fields[1:]


def _figures(histograms: DataFrame) -> DataFrame:
    buckets = sf.col("buckets")
    shares = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
    figures = {name: quantile_us(buckets, share) for name, share in shares.items()}
    return histograms.withColumns(
        {"requests": count_of(buckets), **figures, "total_us": total_us(buckets)}
    )
