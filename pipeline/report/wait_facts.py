"""The figures of waiting, from the histograms of the family `api`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pipeline.added_rows import Addition, FamilyPart
from pipeline.histograms import Histograms
from pipeline.report.facts import ClientName, StageTime, Wait
from pipeline.report.usage_facts import CLIENT, of_clients
from pipeline.schema import STAGES
from pipeline.table_files import GivenRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    addition = Addition(keys, (FamilyPart("api", {}, stages=stages),))
    parts = addition.parts_of({"api": GivenRows(api)})
    groups = addition.whole(parts, lambda added: added, addition.schema)
    found = groups.toArrow().combine_chunks()
    names = list(zip(*(found.column(key).to_pylist() for key in keys), strict=True))
    for stage in stages:
        lists = (found.column(f"{stage}_{kind}").combine_chunks() for kind in "in")
        times = Histograms(*lists)
        columns = (
            times.counts,
            *(times.quantiles_us(share) for share in (0.5, 0.99, 1.0)),
            times.totals_us(),
        )
        for name, count, *rest in zip(names, *(each.tolist() for each in columns), strict=True):
            if count:
                yield name, (stage, count, *rest)
