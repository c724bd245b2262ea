"""The time of traced requests by part: latencies by group, shares, the slowest requests, and the missing spans.

Rules:
- A row is one traced request: its SERVER span, and how long each part of it took. The children of a SERVER span cover
  it without a gap. Time that they do not cover is `missing_ns`: lost spans. A span that occurs twice counts once.
- `mute_ns` is the time after the reply in which the client was throttled. It is no part of `took_ns`.
- Traces are a sample of notable requests. A share is one of the time of the traced requests of its group.
- Requests that were sampled at random (`sampled`) are a fair sample of all requests, save for dropped spans.
- A percentile of a part is that of the requests that have this part; it is the duration of one of them.
- Milliseconds, with fractions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from pipeline.errors import PipelineError
from pipeline.traces.otlp import OTHER_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


STAGES: Final = ("receive", "memory", "throttle", "purgatory", "turn", "upstream")
"""The parts of a request, in their order."""
MUTE: Final = "mute"
_MAX_NS: Final = 10**18
"""More than any request takes; sums of made-up durations stop here and do not overflow."""
_SERVER: Final = (
    *("start_ns", "took_ns", "service", "user", "client_id", "api", "topic", "outcome", "error"),
    *("reasons", "quota_entity", "quota_name", "throttle_time_ms"),
)
"""The columns of the SERVER span."""

TOTAL: Final = "total"
MISSING: Final = "missing"
PARTS: Final = (TOTAL, *STAGES, MISSING, MUTE)
"""The rows of a group: end to end, what it consists of, and the throttle after the reply."""
GROUPINGS: Final = ("user", "client_id", "api", "topic", "hour", "service")
SAMPLED: Final = "sampled"
_ACCURACY: Final = 10_000
_PERCENTILES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}


def requests_of(spans: DataFrame) -> DataFrame:
    """Return the requests of the spans that have no `reason`.

    The columns of the SERVER span are null if it is missing. `duplicates` counts spans that occurred again.
    """
    is_server = f.col("part") == "server"
    grouped = (
        spans.where("reason is null")
        .groupBy("request")
        .agg(
            f.max(f.when(is_server, f.struct(*_SERVER))).alias("server"),
            f.collect_set(f.when(~is_server, f.struct("id", "part", "took_ns"))).alias("parts"),
            f.count("*").alias("spans"),
        )
    )
    found = grouped.select(
        f.col("request").alias("trace_id"),
        "server.*",
        *(_took(stage).alias(f"{stage}_ns") for stage in (*STAGES, MUTE)),
        f.col("server").isNotNull().alias("has_server"),
        f.exists("parts", lambda part: part["part"] == MUTE).alias("has_mute"),
        (f.col("spans") - f.size("parts") - f.col("server").isNotNull().cast("int")).alias(
            "duplicates"
        ),
    )
    covered = sum((f.col(f"{stage}_ns") for stage in STAGES), start=f.lit(0))
    return found.withColumn("missing_ns", f.greatest(f.lit(0), f.col("took_ns") - covered))


def _took(stage: str) -> Column:
    return f.aggregate(
        f.filter("parts", lambda part: part["part"] == stage),
        f.lit(0).cast("bigint"),
        lambda total, part: f.least(total + part["took_ns"], f.lit(_MAX_NS)),
    )


def latencies(requests: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Return one row for each group: the columns of `by`, `requests`, and `parts`, those of PARTS that occur.

    A part has the requests that have it, percentiles, the maximum and the sum of its durations, and its `share` of
    the end-to-end time; null for the mute, which comes after the reply.
    """
    keys = [_keys(name) for name in by]
    taken = requests.where("has_server").select(
        *keys,
        f.inline(
            f.array(*(f.struct(f.lit(part).alias("part"), _ns(part).alias("ns")) for part in PARTS))
        ),
    )
    figures = (
        taken.where((f.col("ns") > 0) | (f.col("part") == TOTAL))
        .groupBy(*by, "part")
        .agg(
            f.count("*").alias("requests"),
            f.percentile_approx("ns", list(_PERCENTILES.values()), _ACCURACY).alias("at"),
            f.max("ns").alias("max_ns"),
            f.sum(f.col("ns") / 1e6).alias("sum_ms"),
        )
    )
    part = f.struct(
        "part",
        "requests",
        *((f.col("at")[n] / 1e6).alias(name) for n, name in enumerate(_PERCENTILES)),
        (f.col("max_ns") / 1e6).alias("max_ms"),
        "sum_ms",
    )
    total = f.get(f.filter("parts", lambda each: each["part"] == TOTAL), f.lit(0))
    grouped = figures.groupBy(*by).agg(f.collect_list(part).alias("parts"))
    return grouped.select(
        *by,
        total["requests"].alias("requests"),
        total["sum_ms"].alias("sum_ms"),
        f.transform("parts", lambda each: each.withField("share", _share(each, total))).alias(
            "parts"
        ),
    )


def slowest(requests: DataFrame, count: int) -> DataFrame:
    """Return the requests that took longest, with their trace ids and parts, the slowest first."""
    worst = requests.where("has_server").orderBy(f.desc("took_ns"), "trace_id").limit(count)
    return worst.select(
        "trace_id",
        f.date_format(_time(), "yyyy-MM-dd HH:mm:ss.SSS").alias("began"),
        *("user", "client_id", "api", "topic", "outcome", "error", "reasons", "quota_entity"),
        *((_ns(part) / 1e6).alias(f"{part}_ms") for part in PARTS),
    )


def reasons(requests: DataFrame) -> DataFrame:
    """Return why requests were traced, and how many for each reason; a request may have several."""
    each = requests.where("has_server").select(f.explode("reasons").alias("reason"))
    return each.groupBy("reason").agg(f.count("*").alias("requests")).orderBy(f.desc("requests"))


def unread(spans: DataFrame) -> DataFrame:
    """Return what could not be read, by reason, with the name of one of the files."""
    counts = f.count("*").alias("count")
    return (
        spans.where("reason is not null").groupBy("reason").agg(counts, f.min("file").alias("file"))
    )


def quarantined(spans: DataFrame) -> DataFrame:
    """Return lines and spans that could not be read, with the columns of the table `quarantine`."""
    rows = spans.where(f.col("reason").isNotNull() & (f.col("reason") != OTHER_PROGRAM))
    return rows.select("reason", f.lit("traces").alias("family"), "file", "line")


def losses(requests: DataFrame) -> DataFrame:
    """Return one row: how many requests there are, and of how many a part is missing."""
    server = f.col("has_server")
    paused = server & (f.col("throttle_time_ms") > 0) & ~f.col("has_mute")
    return requests.agg(
        f.count_if(server).alias("requests"),
        f.count_if(server & f.array_contains("reasons", SAMPLED)).alias("sampled"),
        f.count_if(~server).alias("without_server"),
        f.count_if(f.col("missing_ns") > 0).alias("without_parts"),
        f.count_if(paused).alias("without_mute"),
        f.coalesce(f.sum("duplicates"), f.lit(0)).alias("duplicates"),
    )


def sampled(requests: DataFrame) -> DataFrame:
    """Return the requests that were sampled at random, for other reasons too or not."""
    return requests.where(f.array_contains("reasons", SAMPLED))


def check_groupings(by: Sequence[str]) -> None:
    """Raise PipelineError for a grouping that does not exist or occurs twice."""
    for place, name in enumerate(by):
        if name not in GROUPINGS or name in by[:place]:
            raise PipelineError(
                f"traces cannot be grouped by {name!r}: expected one or more of"
                f" {', '.join(GROUPINGS)}, each once"
            )


def _keys(name: str) -> Column:
    if name == "hour":
        return f.date_format(_time(), "yyyy-MM-dd HH:00").alias(name)
    return f.coalesce(f.col(name), f.lit("")).alias(name)


def _time() -> Column:
    return f.timestamp_micros(f.expr("start_ns div 1000"))


def _ns(part: str) -> Column:
    return f.col("took_ns" if part == TOTAL else f"{part}_ns")


def _share(part: Column, total: Column) -> Column:
    return f.when((part["part"] != MUTE) & (total["sum_ms"] > 0), part["sum_ms"] / total["sum_ms"])
