"""Collects the figures of a report from the tables. Only sums by name come to the driver, never rows of the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline import tables
from pipeline.report.facts import ReportFacts
from pipeline.report.health_facts import pools_of, quality_of
from pipeline.report.labels import client_names
from pipeline.report.traffic_charts import MAX_THROTTLED
from pipeline.report.usage_facts import clients_of, scope_of, throttling_of, traffic_of
from pipeline.report.wait_facts import by_api, by_client, stages_of, waits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def usage_facts(
    spark: SparkSession, uri: str, now_ms: int, duplicates: int | None = None
) -> ReportFacts:
    """Return what the tables say, without predictions and traces. `duplicates` is the number that `ingest` removed.

    Raises PipelineError if there are no rows of the family `entity`.
    """
    entity = tables.read(spark, uri, "entity")
    api, instance = (tables.maybe_read(spark, uri, family) for family in ("api", "instance"))
    written_at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    scope = scope_of(entity, uri, written_at)
    clients = clients_of(entity)
    families = {"entity": entity, "api": api, "instance": instance}
    shown = sorted(clients, key=lambda each: -each.throttled)[:MAX_THROTTLED]
    names = client_names(each.client for each in clients)
    of_apis = by_api(api) if api is not None else []
    of_clients = (
        by_client(api, {each.client: names[each.client] for each in shown})
        if api is not None
        else []
    )
    return ReportFacts(
        scope=scope,
        quality=quality_of(
            {family: rows for family, rows in families.items() if rows is not None},
            tables.maybe_read(spark, uri, "gaps"),
            tables.maybe_read(spark, uri, "quarantine"),
            duplicates,
        ),
        clients=clients,
        traffic=traffic_of(entity, scope),
        throttling=throttling_of(entity, scope, clients),
        waits=(*waits_of("client", of_clients), *waits_of("api", of_apis)),
        stages=stages_of(of_apis),
        pools=pools_of(instance, scope) if instance is not None else (),
    )
