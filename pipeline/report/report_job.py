"""The job `report`: the figures of a page from tables, from traces, and from a quota file if one is given.

Rules:
- The recommended quotas are those of the quota file, else the needs and a tenth more, as `recommend` has them.
- Predictions are for the request rates in force, multiplied by FACTORS; without any in force, for the recommended ones.
- They are made from the capture if it has (nearly) all requests, and at most MAX_CAPTURED; else from one-second rows.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline import rollups, tables
from pipeline.recommend.needs import ALL, Question
from pipeline.recommend.recommendation import (
    Wishes,
    enforcement_in_force,
    needs_of_clients,
    rules_from,
)
from pipeline.recommend.rules import RecordedNeed, Sizing
from pipeline.report.facts import CAPTURE, ROWS, ReportFacts
from pipeline.report.labels import client_names
from pipeline.report.quota_facts import level_of, needs_of, present_quotas, sweep_of
from pipeline.report.traffic_charts import MAX_THROTTLED
from pipeline.report.usage_facts import (
    THROTTLING_BINS,
    TRAFFIC_BINS,
    bin_length_ms,
    clients_of,
    scope_of,
    slowest_of,
    throttling_of,
    traffic_of,
    with_limits,
)
from pipeline.report.wait_facts import by_api, by_client, pools_of, quality_of, stages_of, waits_of
from pipeline.rollups import HOUR_MS
from pipeline.schema import FAMILIES
from pipeline.tables import TimeRange
from pipeline.traces.findings import requests_of, slowest
from pipeline.traces.otlp import read_spans
from pipeline.whatif.jobs import read_quota_file, whatif_capture, whatif_tables
from pipeline.whatif.predict import Candidate
from policies.quota.config import QuotaLine
from policies.quota.entity import REQUEST_RATE, ClientQuotas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from policies.quota.quota_file import QuotaFile

FACTORS: Final = (0.5, 0.6, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
MAX_SLOWEST: Final = 8
MAX_CAPTURED: Final = 1_000_000
CAPTURED_SHARE: Final = 0.99
MAX_NEEDS: Final = 100
"""Largest needs, and as many of entities with quotas."""


def usage_facts(
    spark: SparkSession, uri: str, now_ms: int, duplicates: int | None = None
) -> ReportFacts:
    """Return what the tables say, without predictions and traces. `duplicates` is the number that `ingest` removed.

    Raises PipelineError if there are no rows of the family `entity`.
    """
    entity, api = (
        rollups.read(spark, uri, family, TimeRange(), HOUR_MS) for family in ("entity", "api")
    )
    if entity is None or entity.isEmpty():
        entity = rollups.unrolled("entity", tables.read(spark, uri, "entity"))  # it raises
    instance = tables.maybe_read(spark, uri, "instance")
    written_at = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    scope = scope_of(entity, uri, written_at)
    clients = clients_of(entity)

    def bins_of(most: int) -> DataFrame:
        step_ms = bin_length_ms(scope, most)
        return rollups.read(spark, uri, "entity", TimeRange(), step_ms) or entity

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
            tables.read_missing_rows(spark, uri, tuple(FAMILIES)),
            duplicates,
        ),
        clients=clients,
        traffic=traffic_of(bins_of(TRAFFIC_BINS), scope),
        throttling=throttling_of(bins_of(THROTTLING_BINS), scope, clients),
        waits=(*waits_of("client", of_clients), *waits_of("api", of_apis)),
        stages=stages_of(of_apis),
        pools=pools_of(instance, scope) if instance is not None else (),
    )


class ReportJob:
    """Makes the figures of one page. `tables_uri` names the tables, `now_ms` is the present.

    `say` is told of each step before it begins.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables_uri: str,
        now_ms: int,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._uri = tables_uri
        self._now_ms = now_ms
        self._say = say

    def run(
        self, traces: Sequence[str] = (), quotas: str | None = None, duplicates: int | None = None
    ) -> ReportFacts:
        """Return all figures. `duplicates` is the number of rows that `ingest` has just removed.

        Raises PipelineError if the tables have no rows, or if the quota file or the traces cannot be read.
        """
        given = None if quotas is None else read_quota_file(self._spark, quotas)
        self._say("usage")
        facts = usage_facts(self._spark, self._uri, self._now_ms, duplicates)
        present = present_quotas(facts.clients)
        self._say("needs")
        enforcement = enforcement_in_force(tables.read(self._spark, self._uri, "entity"))
        level = level_of(present, facts.clients)
        wishes = Wishes(level, (REQUEST_RATE,))
        question = Question(level, wishes.limits, enforcement, wishes.burst_seconds, wishes.target)
        facts, recommended = self._with_needs(facts, question, present, given)
        self._say("predictions")
        candidate = Candidate(present or recommended, enforcement, factors=FACTORS)
        facts = self._with_predictions(facts, candidate)
        if present:
            facts = replace(facts, sweep_of="the present quotas")
        if traces:
            self._say("traces")
            facts = self._with_traces(facts, traces)
        return facts

    def _with_needs(
        self,
        facts: ReportFacts,
        question: Question,
        present: Sequence[QuotaLine],
        given: QuotaFile | None,
    ) -> tuple[ReportFacts, Sequence[QuotaLine]]:
        """Return the facts with needs, and the recommended quotas."""
        entity = tables.read(self._spark, self._uri, "entity")
        every = needs_of_clients(entity, None, question).persist()
        try:
            limited = [name for line in present for name in (line.user, line.client_id) if name]
            has_quota = sf.col("user").isin(limited) | sf.col("client_id").isin(limited)
            columns = every.where(sf.col("role") == ALL).select(*RecordedNeed._fields)
            rows = [
                *columns.orderBy(sf.desc("value"), "user", "client_id").limit(MAX_NEEDS).collect(),
                *columns.where(has_quota).orderBy(sf.desc("value")).limit(MAX_NEEDS).collect(),
            ]
            rules = rules_from(every, question, Sizing()) if given is None else []
        finally:
            every.unpersist()
        shown = dict.fromkeys(RecordedNeed(*row) for row in rows)
        facts = replace(facts, needs=needs_of(shown, present, _limit_by(given)))
        return facts, given.quotas if given is not None else [
            QuotaLine(user=e.user, client_id=e.client_id, request_rate=rule.limit)
            for rule in rules
            for e in [rule.entity]
        ]

    def _with_predictions(self, facts: ReportFacts, candidate: Candidate) -> ReportFacts:
        captured = self._maybe_whole_capture(facts.scope.charged)
        if captured is None:
            predicted, source = whatif_tables(self._spark, self._uri, candidate), ROWS
        else:
            predicted, source = whatif_capture(captured, candidate), CAPTURE
        cells = sweep_of(predicted, (each.client for each in facts.clients))
        return replace(facts, sweep=cells, sweep_of="the recommended quotas", sweep_from=source)

    def _maybe_whole_capture(self, charged: int) -> DataFrame | None:
        """Return the rows of the capture if they are nearly all `charged` requests of the tables."""
        captured = tables.maybe_read(self._spark, self._uri, "capture")
        if captured is None:
            return None
        count = captured.where("charged").count()
        return captured if CAPTURED_SHARE * charged <= count <= MAX_CAPTURED else None

    def _with_traces(self, facts: ReportFacts, traces: Sequence[str]) -> ReportFacts:
        requests = requests_of(read_spans(self._spark, traces)).persist()
        try:
            rows = slowest(requests, MAX_SLOWEST).toArrow().to_pylist()
            clients = with_limits(facts.clients, requests)
        finally:
            requests.unpersist()
        return replace(facts, clients=clients, slowest=slowest_of(rows))


def _limit_by(given: QuotaFile | None) -> Callable[[RecordedNeed], float | None]:
    if given is None:
        sizing = Sizing()
        return lambda need: sizing.limit(REQUEST_RATE, need.value)
    quotas = ClientQuotas()
    for line in given.quotas:
        if line.request_rate is not None:
            quotas.set(line.entity, REQUEST_RATE, line.request_rate)

    def resolved(need: RecordedNeed) -> float | None:
        found = quotas.resolve(REQUEST_RATE, need.user or "", need.client_id or "")
        return None if found is None else found.limit

    return resolved
