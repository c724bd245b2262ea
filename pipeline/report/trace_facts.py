"""The figures of traces: the slowest requests, and the limit that delayed most requests of each client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from pipeline.report.facts import ClientName, TracedRequest
from pipeline.report.usage_facts import of_clients

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pipeline.report.facts import ClientUse

_DURATIONS = ("total_ms", "throttle_ms", "purgatory_ms", "memory_ms", "upstream_ms")


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
    """Return the clients with the limit that delayed most of their traced requests (`pipeline.traces.requests`)."""
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
