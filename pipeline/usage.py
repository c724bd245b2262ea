"""Usage: requests, bytes, throttles and waits by user, client id, API, topic, instance, hour or day.

Each figure comes from the one family that has it, so that nothing counts twice:

| family | figures | not by |
|---|---|---|
| entity | requests, bytes and charges of requests that arrived; throttles | api, topic |
| api | how requests ended (`ended` is their sum), waits by stage | topic |
| topic | records and bytes produced and fetched | client_id, api |

Rules:
- By topic only the family topic has figures, by API only the family api.
- `replied_..._bytes` are the bytes of requests that the broker replied to, and of the replies.
- Times are those of the rows: an arrival counts in its second, an end and a wait in the second of the end.
- Waits are percentiles of merged histograms (9 % wide buckets); their totals are accurate to a few per cent.
- `delay_s` is the sum of all throttles, also those after a reply. The stage `throttle` is the wait before a request is
  forwarded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.histograms import count_of, merged, quantile_us, total_us
from pipeline.schema import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

KEYS: Final = ("user", "client_id", "api", "topic", "instance", "hour", "day")
"""The columns that a report may be by."""
_LACKS: Final = {"entity": {"api", "topic"}, "api": {"topic"}, "topic": {"client_id", "api"}}
_SUMS: Final = {
    "entity": (
        *("requests", "charged", "exempt", "request_bytes", "charged_bytes", "exempt_bytes"),
        *("response_bytes", "throttled", "throttle_ms", "blocked_ms", "mute_ms"),
    ),
    "api": ("replied", "no_reply", "answered", "expired", "disconnected"),
    "topic": (
        *("produce_requests", "produce_partitions", "produce_bytes", "produce_batches"),
        *("produce_records", "fetch_replies", "fetch_partitions", "fetch_bytes", "fetch_batches"),
        "fetch_records",
    ),
}
_ALL: Final = "all"
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


class TimeRange(NamedTuple):
    """Rows from `first_ms` to before `end_ms`; None is open."""

    first_ms: int | None = None
    end_ms: int | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the span; folders of other days are not read."""
        if self.first_ms is not None:
            rows = rows.where(
                (sf.col("ts_ms") >= self.first_ms) & (sf.col("dt") >= _day(self.first_ms))
            )
        if self.end_ms is not None:
            rows = rows.where((sf.col("ts_ms") < self.end_ms) & (sf.col("dt") <= _day(self.end_ms)))
        return rows


def families_for(by: Sequence[str]) -> tuple[str, ...]:
    """Return the families that have figures by these columns.

    Raises PipelineError for a column that is unknown or twice there, and if no family has them all.
    """
    for name in by:
        if name not in KEYS or by.count(name) > 1:
            raise PipelineError(
                f"--by {','.join(by)}: {name!r} is not one of {', '.join(KEYS)}, each once"
            )
    found: tuple[str, ...] = ("entity", "api")
    if "topic" in by or "api" in by:
        found = ("topic",) if "topic" in by else ("api",)
    for family in found:
        lacking = _LACKS[family].intersection(by)
        if lacking:
            raise PipelineError(
                f"--by {','.join(by)}: rows of the family {family} have no {' or '.join(sorted(lacking))}"
            )
    return found


def read_usage(spark: SparkSession, uri: str, by: Sequence[str], span: TimeRange) -> DataFrame:
    """Return the usage by these columns from the tables at `uri`. Raises PipelineError as `families_for`.

    A family whose table does not exist is left out. PipelineError if there is none at all.
    """
    rows = {family: tables.maybe_read(spark, uri, family) for family in families_for(by)}
    found = {family: span.of(each) for family, each in rows.items() if each is not None}
    if not found:
        tables.read(spark, uri, next(iter(rows)))  # it raises
    return usage(found, by)


def usage(rows: Mapping[str, DataFrame], by: Sequence[str]) -> DataFrame:
    """Return the usage by these columns, from the rows of the families that `families_for` names or some of them.

    A column for each of `by`, then the figures. Durations end with their unit, shares are 0 to 1; null where nothing
    was recorded.
    """
    keys = list(by) or [_ALL]
    parts = {"entity": _of_entity, "api": _of_api, "topic": _of_topic}
    times = {
        "hour": sf.col("ts_ms") - sf.col("ts_ms") % HOUR_MS,
        "day": sf.col("ts_ms") - sf.col("ts_ms") % DAY_MS,
        _ALL: sf.lit(1),
    }
    added = {name: time for name, time in times.items() if name in keys}
    found = [parts[family](each.withColumns(added), keys) for family, each in rows.items()]
    joined = reduce(lambda left, right: left.join(right, keys, "full"), found)
    formats = {"hour": "yyyy-MM-dd HH:00", "day": "yyyy-MM-dd"}
    texts = {
        name: sf.date_format(sf.timestamp_millis(name), text)
        for name, text in formats.items()
        if name in keys
    }
    return joined.withColumns(texts).drop(_ALL)


def sorted_by(figures: DataFrame, by: Sequence[str], column: str | None = None) -> DataFrame:
    """Return a report by `by` sorted by a column, largest first; by hour or day first, in the order of time.

    By default the column is that of requests, or of bytes for topics. Raises PipelineError if it is unknown.
    """
    if column is not None and column not in figures.columns:
        raise PipelineError(f"--sort {column}: not one of {', '.join(figures.columns)}")
    if column is not None:
        order = sf.col(column).desc_nulls_last()
    elif "produce_bytes" in figures.columns:
        order = (sf.col("produce_bytes") + sf.col("fetch_bytes")).desc()
    else:
        order = sf.col("requests" if "requests" in figures.columns else "ended").desc_nulls_last()
    times = [name for name in by if name in ("hour", "day") and column is None]
    return figures.orderBy(*times, order, *by)


def _of_entity(rows: DataFrame, keys: list[str]) -> DataFrame:
    summed = rows.groupBy(*keys).agg(
        *_sums("entity"), sf.max("throttle_ms_max").alias("delay_max_ms")
    )
    return (
        summed.withColumn("throttled_share", _share(sf.col("throttled"), sf.col("charged")))
        .withColumn("delay_s", sf.col("throttle_ms") / 1000)
        .withColumn("blocked_s", sf.col("blocked_ms") / 1000)
        .withColumn("memory_mute_s", sf.col("mute_ms") / 1000)
        .drop("throttle_ms", "blocked_ms", "mute_ms")
    )


def _of_api(rows: DataFrame, keys: list[str]) -> DataFrame:
    counted = rows.groupBy(*keys).agg(
        sf.sum("requests").alias("ended"),
        *_sums("api"),
        sf.sum("request_bytes").alias("replied_request_bytes"),
        sf.sum("response_bytes").alias("replied_response_bytes"),
    )
    buckets = sf.col("buckets")
    figures = {
        "waited": count_of(buckets),
        **{f"{name}_ms": quantile_us(buckets, share) / 1000 for name, share in QUANTILES.items()},
        "s": total_us(buckets) / 1_000_000,
    }
    waits = merged(rows, keys).select(
        *keys, "stage", *(figure.alias(name) for name, figure in figures.items())
    )
    by_stage = waits.groupBy(*keys).agg(
        *(
            sf.max(sf.when(sf.col("stage") == stage, sf.col(name))).alias(f"{stage}_{name}")
            for stage in STAGES
            for name in figures
        )
    )
    spent = {stage: sf.coalesce(sf.col(f"{stage}_s"), sf.lit(0.0)) for stage in STAGES}
    total = reduce(add, spent.values())
    shares = {f"{stage}_time_share": _share(each, total) for stage, each in spent.items()}
    return counted.join(by_stage.withColumns(shares), keys, "left")


def _of_topic(rows: DataFrame, keys: list[str]) -> DataFrame:
    return rows.groupBy(*keys).agg(*_sums("topic"))


def _sums(family: str) -> list[Column]:
    return [sf.sum(name).alias(name) for name in _SUMS[family]]


def _share(part: Column, whole: Column) -> Column:
    return sf.when(whole > 0, part / whole)


def _day(ms: int) -> Column:
    return sf.lit(datetime.fromtimestamp(ms / 1000, UTC).date())
