"""One row per traced request: its SERVER span, and how long each part of it took.

Rules:
- The children of a SERVER span cover it without a gap. Time that they do not cover is `missing_ns`: lost spans.
- `mute_ns` is the time after the reply in which the client was throttled. It is no part of `took_ns`.
- A span that occurs twice counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
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
