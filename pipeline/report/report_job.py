"""The job `report`: the figures of a page from tables, from traces, and from a quota file if one is given.

Rules:
- Predictions are for the request rates in force, multiplied by FACTORS; without any in force, for those of the file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from pipeline import tables
from pipeline.report.collect import usage_facts
from pipeline.report.quota_facts import present_quotas, sweep_of
from pipeline.report.trace_facts import slowest_of, with_limits
from pipeline.traces.findings import slowest
from pipeline.traces.otlp import read_spans
from pipeline.traces.requests import requests_of
from pipeline.whatif.jobs import read_quota_file, whatif
from pipeline.whatif.predict import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from pipeline.report.facts import ReportFacts
    from policies.quota.config import QuotaLine

FACTORS: Final = (0.5, 0.6, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
MAX_SLOWEST: Final = 8


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
        if lines := present or (given.quotas if given is not None else ()):
            self._say("predictions")
            facts = self._with_predictions(facts, lines)
            words = "the present quotas" if present else "the given quotas"
            facts = replace(facts, sweep_of=words)
        if traces:
            self._say("traces")
            facts = self._with_traces(facts, traces)
        return facts

    def _with_predictions(self, facts: ReportFacts, lines: Sequence[QuotaLine]) -> ReportFacts:
        entity = tables.read(self._spark, self._uri, "entity")
        enforcement = _enforcement(each.enforcement for each in facts.clients)
        candidate = Candidate(lines, enforcement, factors=FACTORS)
        cells = sweep_of(whatif(entity, candidate), (each.client for each in facts.clients))
        return replace(facts, sweep=cells)

    def _with_traces(self, facts: ReportFacts, traces: Sequence[str]) -> ReportFacts:
        requests = requests_of(read_spans(self._spark, traces)).persist()
        try:
            rows = slowest(requests, MAX_SLOWEST).toArrow().to_pylist()
            clients = with_limits(facts.clients, requests)
        finally:
            requests.unpersist()
        return replace(facts, clients=clients, slowest=slowest_of(rows))


def _enforcement(found: Iterable[str | None]) -> Literal["entity", "channel"]:
    most = Counter(each for each in found if each).most_common(1)
    return "channel" if most and most[0][0] == "channel" else "entity"
