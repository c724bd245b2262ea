"""The figures of traffic and throttling, from the family `entity`; and the slowest requests, by traces.

Rows of that family have the columns of a rollup. Those of a chart have the length of its bins, or a shorter one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf

from pipeline.report.facts import (
    OTHER,
    ClientName,
    ClientUse,
    Scope,
    ThrottledBin,
    TracedRequest,
    TrafficBin,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame


MAX_CLIENTS: Final = 30
"""With most requests, and as many with most throttled ones."""
MAX_NAMES: Final = 4
"""Of the traffic; the rest is one."""
MAX_THROTTLED: Final = 12
TRAFFIC_BINS, THROTTLING_BINS = 150, 60
_STEPS_S: Final = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
)
CLIENT: Final = ("user", "client_id")

_DURATIONS = ("total_ms", "throttle_ms", "purgatory_ms", "memory_ms", "upstream_ms", "mute_ms")


def scope_of(entity: DataFrame, source: str, written_at: str) -> Scope:
    """Return the origin of the figures and the sums over all clients."""
    row = entity.agg(
        sf.min("first_ms"),
        sf.max("end_ms"),
        sf.count_distinct("instance"),
        sf.count_distinct(*CLIENT),
        *(sf.sum(name) for name in ("requests", "charged", "throttled")),
        sf.max("throttle_ms_max"),
    ).collect()[0]
    return Scope(source, written_at, *(int(value or 0) for value in row))


def clients_of(entity: DataFrame) -> tuple[ClientUse, ...]:
    """Return the clients with most requests and those with most throttled ones.

    A quota that changed is shown as it was last.
    """
    limited_at = sf.when(sf.col("quota_rate").isNotNull(), sf.col("end_ms"))
    sums = entity.groupBy(*CLIENT).agg(
        *(sf.sum(name).alias(name) for name in ("requests", "charged", "throttled", "throttle_ms")),
        sf.max("throttle_ms_max").alias("throttle_ms_max"),
        *(
            sf.max_by(name, limited_at).alias(name)
            for name in ("quota_entity", "quota_rate", "enforcement")
        ),
    )
    sums = sums.persist()
    try:
        found = {
            ClientName(row["user"], row["client_id"]): row
            for order in ("requests", "throttled")
            for row in sums.orderBy(sf.desc(order), *CLIENT).limit(MAX_CLIENTS).collect()
        }
    finally:
        sums.unpersist()
    return tuple(
        ClientUse(
            client=client,
            requests=int(row["requests"] or 0),
            charged=int(row["charged"] or 0),
            throttled=int(row["throttled"] or 0),
            throttle_ms=int(row["throttle_ms"] or 0),
            throttle_ms_max=int(row["throttle_ms_max"] or 0),
            quota_entity=row["quota_entity"],
            quota_rate=row["quota_rate"],
            enforcement=row["enforcement"],
        )
        for client, row in found.items()
    )


def bin_length_ms(scope: Scope, bins: int) -> int:
    """Return the shortest round length of which so many bins are as long as the scope; whole days beyond those."""
    length_ms = scope.end_ms - scope.start_ms
    day_ms = _STEPS_S[-1] * 1000
    return next(
        (step * 1000 for step in _STEPS_S if step * 1000 * bins >= length_ms),
        -(-length_ms // (bins * day_ms)) * day_ms,
    )


def traffic_of(entity: DataFrame, scope: Scope) -> tuple[TrafficBin, ...]:
    """Return the requests of the users with most over time; of client ids if all have one user."""
    if scope.end_ms <= scope.start_ms:
        return ()
    users = entity.select("user").distinct().limit(2).count()
    by = "user" if users > 1 else "client_id"
    most = (
        entity.groupBy(by)
        .agg(sf.sum("requests").alias("requests"))
        .orderBy(sf.desc("requests"), by)
    )
    names = [row[by] for row in most.limit(MAX_NAMES).collect()]
    step_ms = bin_length_ms(scope, TRAFFIC_BINS)
    bins = entity.groupBy(
        _bin(step_ms),
        sf.when(sf.col(by).isin(names), sf.col(by)).otherwise(OTHER).alias("name"),
    ).agg(sf.sum("requests").alias("requests"))
    counts = {(row["at_ms"], row["name"]): row["requests"] for row in bins.collect()}
    every = sorted({name for _, name in counts})
    found = []
    for at_ms in range(scope.start_ms - scope.start_ms % step_ms, scope.end_ms, step_ms):
        length_ms = min(at_ms + step_ms, scope.end_ms) - max(at_ms, scope.start_ms)
        found += [
            TrafficBin(at_ms, name, counts.get((at_ms, name), 0) * 1000 / length_ms)
            for name in every
        ]
    return tuple(found)


def throttling_of(
    entity: DataFrame, scope: Scope, clients: Sequence[ClientUse]
) -> tuple[ThrottledBin, ...]:
    """Return the throttled share of the clients with most throttled requests over time."""
    hit = sorted((each for each in clients if each.throttled), key=lambda each: -each.throttled)
    if not hit:
        return ()
    step_ms = bin_length_ms(scope, THROTTLING_BINS)
    rows = of_clients(entity, (each.client for each in hit[:MAX_THROTTLED]))
    bins = rows.groupBy(_bin(step_ms), *CLIENT).agg(sf.sum("throttled"), sf.sum("charged"))
    return tuple(
        sorted(
            ThrottledBin(
                at_ms,
                ClientName(user, client_id),
                min(1.0, throttled / charged) if charged else 1.0,
            )
            for at_ms, user, client_id, throttled, charged in bins.collect()
            if throttled
        )
    )


def of_clients(rows: DataFrame, clients: Iterable[ClientName]) -> DataFrame:
    """Return the rows of a few clients."""
    few = rows.sparkSession.createDataFrame(list(clients), "user string, client_id string")
    return rows.join(sf.broadcast(few), list(CLIENT), "left_semi")


def _bin(step_ms: int) -> Column:
    return (sf.col("ts_ms") - sf.col("ts_ms") % step_ms).alias("at_ms")


def slowest_of(rows: Iterable[Mapping[str, Any]]) -> tuple[TracedRequest, ...]:
    """Return the requests of `pipeline.traces.findings.slowest`."""
    return tuple(
        TracedRequest(
            row["trace_id"],
            ClientName(row["user"] or "", row["client_id"] or ""),
            row["api"] or "",
            *(float(row[name] or 0.0) for name in _DURATIONS),
        )
        for row in rows
    )


def with_limits(clients: Sequence[ClientUse], requests: DataFrame) -> tuple[ClientUse, ...]:
    """Return the clients with the limit that delayed most of their traced requests (`pipeline.traces.findings`)."""
    counts = (
        requests.where("quota_name is not null").groupBy("user", "client_id", "quota_name").count()
    )
    by_client = counts.groupBy("user", "client_id").agg(
        sf.max_by("quota_name", sf.struct("count", "quota_name")).alias("limit")
    )
    if not clients:
        return ()
    rows = of_clients(by_client, (each.client for each in clients)).collect()
    limits: dict[ClientName, str] = {
        ClientName(row["user"], row["client_id"]): row["limit"] for row in rows
    }
    return tuple(each._replace(limit=limits.get(each.client, each.limit)) for each in clients)
