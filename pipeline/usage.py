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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.added_rows import Addition, FamilyPart
from pipeline.errors import PipelineError
from pipeline.histograms import Histograms
from pipeline.schema import STAGES
from pipeline.stages import with_delays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.tables import TimeRange

KEYS: Final = ("user", "client_id", "api", "topic", "instance", "hour", "day")
"""The columns that a report may be by."""
_LACKS: Final = {"entity": {"api", "topic"}, "api": {"topic"}, "topic": {"client_id", "api"}}
_ENTITY: Final = (
    *("requests", "charged", "exempt", "request_bytes", "charged_bytes", "exempt_bytes"),
    *("response_bytes", "throttled", "throttle_ms", "blocked_ms", "mute_ms"),
)
_API: Final = {
    "ended": "requests",
    **{name: name for name in ("replied", "no_reply", "answered", "expired", "disconnected")},
    "replied_request_bytes": "request_bytes",
    "replied_response_bytes": "response_bytes",
}
_TOPIC: Final = (
    *("produce_requests", "produce_partitions", "produce_bytes", "produce_batches"),
    *("produce_records", "fetch_replies", "fetch_partitions", "fetch_bytes", "fetch_batches"),
    "fetch_records",
)
_PARTS: Final = {
    "entity": FamilyPart(
        "entity", {name: name for name in _ENTITY}, {"delay_max_ms": "throttle_ms_max"}
    ),
    "api": FamilyPart("api", _API, stages=STAGES),
    "topic": FamilyPart("topic", {name: name for name in _TOPIC}),
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
    families = families_for(by)
    opened = {family: tables.maybe_read(spark, uri, family) for family in families}
    found = {
        family: tables.of_clients(span.of(table))
        for family, table in opened.items()
        if table is not None
    }
    if not found:
        tables.read(spark, uri, families[0])  # it raises
    return usage(found, by)


def usage(rows: Mapping[str, DataFrame], by: Sequence[str]) -> DataFrame:
    """Return the usage by these columns, from the rows of the families that `families_for` names or some of them.

    A column for each of `by`, then the figures. Durations end with their unit, shares are 0 to 1; null where nothing
    was recorded.
    """
    addition = Addition(tuple(by), tuple(_PARTS[family] for family in rows))
    given = {
        family: with_delays(each) if family == "api" else each for family, each in rows.items()
    }
    return _usage(addition, addition.parts_of(given))


def _usage(addition: Addition, parts: DataFrame) -> DataFrame:
    empty = pa.RecordBatch.from_pylist([], addition.schema)
    found = addition.whole(parts, figures, figures(empty).schema)
    formats = {"hour": "yyyy-MM-dd HH:00", "day": "yyyy-MM-dd"}
    texts = {
        name: sf.date_format(sf.timestamp_millis(name), text)
        for name, text in formats.items()
        if name in addition.keys
    }
    return found.withColumns(texts) if texts else found


def figures(added: pa.RecordBatch) -> pa.RecordBatch:
    """Return the figures of groups: their sums, then what is computed from them."""
    given = {name: added.column(name) for name in added.schema.names}
    found = {
        name: column
        for name, column in given.items()
        if name not in _SECONDS.values() and not pa.types.is_list(column.type)
    }
    if "throttled" in given:
        found["throttled_share"] = _share(given["throttled"], given["charged"])
        for name, of in _SECONDS.items():
            found[name] = pc.divide(given[of].cast(pa.float64()), 1000.0)
    if "ended" in given:
        spent = {}
        for stage in STAGES:
            times = Histograms(given[f"{stage}_i"], given[f"{stage}_n"])
            some = times.counts > 0
            spent[stage] = times.totals_us() / 1_000_000
            of_stage = {
                "waited": times.counts,
                **{f"{name}_ms": times.quantiles_us(at) / 1000 for name, at in QUANTILES.items()},
                "s": spent[stage],
            }
            for name, values in of_stage.items():
                found[f"{stage}_{name}"] = pa.array(values, mask=~some)
        total = sum(spent.values())
        for stage, each in spent.items():
            found[f"{stage}_time_share"] = _share(pa.array(each), pa.array(total))
    return pa.RecordBatch.from_pydict(found)


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


def _share(part: pa.Array, whole: pa.Array) -> pa.Array:
    some = pc.if_else(pc.greater(whole, 0), whole, None)
    return pc.divide(part.cast(pa.float64()), some.cast(pa.float64()))
