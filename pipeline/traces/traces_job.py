"""The job `traces`: reads the files once and returns everything that its command prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from pipeline.errors import PipelineError
from pipeline.traces import findings
from pipeline.traces.findings import requests_of
from pipeline.traces.otlp import read_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

SAMPLE: Final = (
    "Traces are a sample of notable requests (throttled, held, out of memory, slow, failed), and of one in so many"
    " others. All shares and percentiles are those of the traced requests, not of all requests."
)
Figures = dict[str, Any]
"""One row of a result, by column."""


@dataclass(frozen=True, slots=True)
class TraceFindings:
    """The findings of the traces. Durations are in milliseconds, shares between 0 and 1."""

    requests: int
    reasons: dict[str, int]
    """Why requests were traced; one may have several reasons."""
    overall: Figures
    sampled: Figures | None
    """The same of the requests that were sampled at random, a fair sample of all; None if there is none."""
    groups: list[Figures]
    """Those with the most time, the first first."""
    group_count: int
    slowest: list[Figures]
    losses: dict[str, int]
    """Requests of which spans are missing, and spans that occurred again."""
    unread: list[Figures]
    """Lines and spans that could not be read, by reason, with one of the files."""
    sample: str = field(default=SAMPLE)


def find(
    spark: SparkSession,
    uris: Sequence[str],
    *,
    by: Sequence[str],
    slowest: int,
    groups: int,
    output: str | None = None,
) -> TraceFindings:
    """Return the findings: `groups` groups of `by` and so many of the slowest requests.

    With `output` also write the tables `requests`, `groups` and `quarantine` there. Raises PipelineError if the files
    have no request of Sluice, or if `output` exists.
    """
    findings.check_groupings(by)
    spans = read_spans(spark, uris).persist(StorageLevel.MEMORY_AND_DISK)
    requests = requests_of(spans).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        (losses,) = _rows(findings.losses(requests))
        unread = _rows(findings.unread(spans).orderBy(f.desc("count")))
        count = losses.pop("requests")
        if not count:
            raise PipelineError(_nothing(uris, unread, losses))
        grouped = findings.latencies(requests, by).persist(StorageLevel.MEMORY_AND_DISK)
        (overall,) = _rows(findings.latencies(requests))
        sampled = losses.pop("sampled")
        if output is not None:
            for name, rows in {
                "requests": requests.where("has_server"),
                "groups": grouped,
                "quarantine": findings.quarantined(spans),
            }.items():
                rows.write.mode("error").parquet(f"{output.rstrip('/')}/{name}")
        return TraceFindings(
            requests=count,
            reasons={row["reason"]: row["requests"] for row in _rows(findings.reasons(requests))},
            overall=_ordered(overall),
            sampled=_ordered(*_rows(findings.latencies(findings.sampled(requests))))
            if sampled
            else None,
            groups=[
                _ordered(row) for row in _rows(grouped.orderBy(f.desc("sum_ms")).limit(groups))
            ],
            group_count=grouped.count(),
            slowest=_rows(findings.slowest(requests, slowest)),
            losses=losses,
            unread=unread,
        )
    finally:
        spans.unpersist()
        requests.unpersist()


def _rows(small: DataFrame) -> list[Figures]:
    return list(small.toArrow().to_pylist())


def _ordered(group: Figures) -> Figures:
    """Return the group with its parts in the order of PARTS."""
    parts = sorted(group["parts"], key=lambda part: findings.PARTS.index(part["part"]))
    return group | {"parts": parts}


def _nothing(uris: Sequence[str], unread: list[Figures], losses: dict[str, int]) -> str:
    why = [f"{row['count']:,} x {row['reason']}" for row in unread]
    if losses["without_server"]:
        why.append(f"{losses['without_server']:,} requests without their SERVER span")
    return (
        f"{', '.join(uris)}: found no request of Sluice ({'; '.join(why) or 'the files are empty'});"
        " expected OTLP/JSON, one export a line, as the setting traces.file writes it"
    )
