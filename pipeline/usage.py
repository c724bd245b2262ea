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
- `delay_s` is the sum of all delays by quotas (see `pipeline.stages`), of requests that arrived. The stage `throttle`
  has the same delays, of requests that ended: `throttle_s` is that sum, but for those on their way.
- Rollups are read where they have what is asked for. Every step is Spark's own: millions of groups are spilled.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline import rollups, tables
from pipeline.errors import PipelineError
from pipeline.rollups import HOUR_MS, MINUTE_MS, PARTS
from pipeline.schema import STAGES
from pipeline.waits import waits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from pipeline.tables import TimeRange

TIMES: Final = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": 24 * HOUR_MS}
KEYS: Final = ("user", "client_id", "api", "topic", "instance", *TIMES)
"""The columns that a report may be by."""
_FORMATS: Final = {"minute": "yyyy-MM-dd HH:mm", "hour": "yyyy-MM-dd HH:00", "day": "yyyy-MM-dd"}
_LACKS: Final = {"entity": {"api", "topic"}, "api": {"topic"}, "topic": {"client_id", "api"}}
_RENAMED: Final = {
    ("entity", "throttle_ms_max"): "delay_max_ms",
    ("api", "requests"): "ended",
    ("api", "request_bytes"): "replied_request_bytes",
    ("api", "response_bytes"): "replied_response_bytes",
}
_SECONDS: Final = {"delay_s": "throttle_ms", "blocked_s": "blocked_ms", "memory_mute_s": "mute_ms"}
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


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
    step_ms = min((TIMES[name] for name in by if name in TIMES), default=HOUR_MS)
    families = families_for(by)
    opened = {family: rollups.read(spark, uri, family, span, step_ms) for family in families}
    found = {family: rows for family, rows in opened.items() if rows is not None}
    if not found:
        tables.read(spark, uri, families[0])  # it raises
    return usage(found, by)


def usage(rows: Mapping[str, DataFrame], by: Sequence[str]) -> DataFrame:
    """Return the usage by these columns, from the rows of the families that `families_for` names or some of them.

    The rows have the columns of a rollup. A column for each of `by`, then the figures. Durations end with their unit,
    shares are 0 to 1; null where nothing was recorded.
    """
    steps = {
        name: sf.col("ts_ms") - sf.col("ts_ms") % length_ms
        for name, length_ms in TIMES.items()
        if name in by
    }
    keyed = {family: each.withColumns(steps) if steps else each for family, each in rows.items()}
    parts = [_counts(family, each, by) for family, each in keyed.items()]
    if "api" in keyed:
        parts.append(_waits(keyed["api"], by))
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    figures = [name for name in together.columns if name not in by]
    found = together.groupBy(*by).agg(*(sf.max(name).alias(name) for name in figures))
    found = found.where(sf.col("rows").isNotNull()).drop("rows")
    if "throttled" in figures:
        shares = {"throttled_share": _share(sf.col("throttled"), sf.col("charged"))}
        seconds = {name: sf.col(of) / sf.lit(1000.0) for name, of in _SECONDS.items()}
        found = found.withColumns(shares | seconds).drop(*_SECONDS.values())
    if "ended" in figures:
        spent = {stage: sf.coalesce(f"{stage}_s", sf.lit(0.0)) for stage in STAGES}
        total = reduce(lambda one, other: one + other, spent.values())
        found = found.withColumns(
            {f"{stage}_time_share": _share(each, total) for stage, each in spent.items()}
        )
    texts = {
        name: sf.date_format(sf.timestamp_millis(sf.col(name)), _FORMATS[name]) for name in steps
    }
    return found.withColumns(texts) if texts else found


def _counts(family: str, rows: DataFrame, by: Sequence[str]) -> DataFrame:
    part = PARTS[family]
    maxima = ["throttle_ms_max"] if family == "entity" else []
    return rollups.sums(rows, family, by).select(
        *by,
        "rows",
        *(sf.col(name).alias(_RENAMED.get((family, name), name)) for name in (*part.sums, *maxima)),
    )


def _waits(api: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return a row for each group, with the waits of all stages in columns of their own."""
    found = waits(api, STAGES, by, QUANTILES)
    figures = {"waited": sf.col("waited")}
    figures |= {f"{name}_ms": sf.col(name) / sf.lit(1000.0) for name in QUANTILES}
    figures["s"] = sf.col("total_us") / sf.lit(1_000_000.0)
    return found.groupBy(*by).agg(
        *(
            sf.max(sf.when(sf.col("stage") == stage, figure)).alias(f"{stage}_{name}")
            for stage in STAGES
            for name, figure in figures.items()
        )
    )


def sorted_by(figures: DataFrame, by: Sequence[str], column: str | None = None) -> DataFrame:
    """Return a report by `by` sorted by a column, largest first; by time first, in the order of time.

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
    times = [name for name in by if name in TIMES and column is None]
    return figures.orderBy(*times, order, *by)


def _share(part: Column, whole: Column) -> Column:
    return part / sf.nullif(whole, sf.lit(0))
