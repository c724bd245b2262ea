"""Rollups: rows of the families `entity`, `api` and `topic`, added up by minute or by hour.

Rules:
- One table has all three: `family` tells which a row is of, and columns that its family lacks are null.
- A row is a partial sum. A step may have several rows of the same names, and whoever reads them adds them up.
- So a row of the usage log is a partial sum, too: `unrolled` gives it the columns of a rollup, for the same readers.
  Its stage `throttle` then has whole delays (`pipeline.stages`).
- A client whose quota changed has a row for each quota of the step: the columns of the quota are names as well.
- A histogram is a pair of lists: numbers of buckets in order, and their counts, which are not 0. Bucket by bucket it is
  rows, which Spark adds and spills as it does others; nothing is as large as the histograms of all groups.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from pipeline import tables
from pipeline.schema import FAMILIES, STAGES
from pipeline.stages import with_delays
from pipeline.tables import TimeRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
ROLLUPS: Final = {"usage_hour": HOUR_MS, "usage_minute": MINUTE_MS}
"""The tables and the length of their steps, the longest first."""


class Part(NamedTuple):
    """What the rows of a family have: names, figures that are added, and those whose largest value counts."""

    names: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    """The stages whose histograms are merged."""


_OWN: Final = ("seq", "ts_ms", "throttle_ms_max")


def _sums(family: str) -> tuple[str, ...]:
    """Return the counts of a family: all of its whole numbers but the few that are no counts."""
    found = (each.name for each in FAMILIES[family] if isinstance(each.dataType, LongType))
    return tuple(name for name in found if name not in _OWN)


PARTS: Final = {
    "entity": Part(
        ("instance", "user", "client_id", "enforcement", "quota_entity", "quota_rate"),
        _sums("entity"),
        ("throttle_ms_max", "connections"),
    ),
    "api": Part(("instance", "user", "client_id", "api_key", "api"), _sums("api"), stages=STAGES),
    "topic": Part(("instance", "user", "topic"), _sums("topic")),
}


def _schema() -> StructType:
    fields = {
        "ts_ms": StructField("ts_ms", LongType()),
        "dt": StructField("dt", DateType()),
        "family": StructField("family", StringType()),
    }
    fields |= {
        name: StructField(name, FAMILIES[family][name].dataType)
        for family, part in PARTS.items()
        for name in part.names
    }
    fields |= {name: StructField(name, LongType()) for name in ("rows", "first_ms", "end_ms")}
    fields |= {
        name: StructField(name, FAMILIES[family][name].dataType)
        for family, part in PARTS.items()
        for name in (*part.sums, *part.maxima, *_lists(part.stages))
    }
    return StructType(list(fields.values()))


def _lists(stages: Sequence[str]) -> list[str]:
    return [f"{stage}_{kind}" for stage in stages for kind in "in"]


ROLLUP: Final = _schema()
"""The columns: `ts_ms` is the beginning of the step and `dt` its day; `rows` of the usage log are in it, the first from
`first_ms`, the last until before `end_ms`.
"""


def unrolled(family: str, rows: DataFrame) -> DataFrame:
    """Return rows of the usage log with the columns of a rollup, one for each."""
    own = {
        "family": sf.lit(family),
        "rows": sf.lit(1).cast("long"),
        "first_ms": sf.col("ts_ms"),
        "end_ms": sf.col("ts_ms") + sf.col("window_ms"),
        "dt": _day_of(sf.col("ts_ms")),
    }
    rows = with_delays(rows) if family == "api" else rows
    part = PARTS[family]
    has = {"ts_ms", *part.names, *part.sums, *part.maxima, *_lists(part.stages)}
    return rows.select(
        *(
            own.get(each.name, sf.col(each.name) if each.name in has else sf.lit(None))
            .cast(each.dataType)
            .alias(each.name)
            for each in ROLLUP
        )
    )


def rolled_up(rows: Mapping[str, DataFrame], step_ms: int) -> DataFrame:
    """Return the rollup (ROLLUP) of rows of the usage log by family, in steps of so many milliseconds.

    Rows of other families are left out.
    """
    return _together(
        _added(family, unrolled(family, rows[family]), step_ms)
        for family in PARTS
        if family in rows
    )


def coarser(rollup: DataFrame, step_ms: int) -> DataFrame:
    """Return a rollup in longer steps; it adds up the partial sums of each."""
    return _together(
        _added(family, rollup.where(sf.col("family") == family), step_ms) for family in PARTS
    )


def read(
    spark: SparkSession, uri: str, family: str, span: TimeRange, step_ms: int
) -> DataFrame | None:
    """Return the rows of a family's clients in a time, as partial sums with the columns of a rollup.

    No sum is of more than one step of `step_ms`. They come from the table with the longest steps that fit, and the ends
    of the time from finer ones. None if there is no table of the family. Raises PipelineError if columns do not fit.
    """
    rows = tables.maybe_read(spark, uri, family)
    if rows is None:
        return None
    found = {}
    for name, length_ms in ROLLUPS.items():
        rollup = tables.maybe_read(spark, uri, name) if step_ms % length_ms == 0 else None
        if rollup is not None:
            found[length_ms] = tables.with_columns(tables.table_uri(uri, name), rollup, ROLLUP)
    parts = (
        unrolled(family, each.of(rows))
        if length_ms is None
        else each.of(found[length_ms].where(sf.col("family") == family))
        for length_ms, each in divided(span, tuple(found))
    )
    return tables.of_clients(_together(parts))


def divided(span: TimeRange, lengths_ms: Sequence[int]) -> Iterator[tuple[int | None, TimeRange]]:
    """Yield parts of a time with whole steps of these lengths, the longest first; None stands for the usage log."""
    if not lengths_ms:
        yield None, span
        return
    length_ms, *shorter = lengths_ms
    first_ms = None if span.first_ms is None else -(-span.first_ms // length_ms) * length_ms
    end_ms = None if span.end_ms is None else span.end_ms // length_ms * length_ms
    if first_ms is not None and end_ms is not None and first_ms >= end_ms:
        yield from divided(span, shorter)
        return
    yield length_ms, TimeRange(first_ms, end_ms)
    if first_ms != span.first_ms:
        yield from divided(TimeRange(span.first_ms, first_ms), shorter)
    if end_ms != span.end_ms:
        yield from divided(TimeRange(end_ms, span.end_ms), shorter)


def sums(rows: DataFrame, family: str, keys: Sequence[str]) -> DataFrame:
    """Return the counts and maxima of the rows of a family, which has the columns of a rollup, by these columns."""
    part = PARTS[family]
    return rows.groupBy(*keys).agg(
        *(sf.sum(name).alias(name) for name in ("rows", *part.sums)),
        sf.min("first_ms").alias("first_ms"),
        *(sf.max(name).alias(name) for name in ("end_ms", *part.maxima)),
    )


def buckets(rows: DataFrame, stages: Sequence[str], keys: Sequence[str]) -> DataFrame:
    """Return the merged histograms of rows by these columns: a row for each `stage`, `bucket` and its `count`."""
    each = sf.array(
        *(
            sf.struct(
                sf.lit(stage).alias("stage"),
                sf.col(f"{stage}_i").alias("buckets"),
                sf.col(f"{stage}_n").alias("counts"),
            )
            for stage in stages
        )
    )
    some = rows.select(*keys, sf.inline(each)).where(sf.size("buckets") > 0)
    times = sf.inline(sf.arrays_zip("buckets", "counts")).alias("bucket", "count")
    return (
        some.select(*keys, "stage", times)
        .groupBy(*keys, "stage", "bucket")
        .agg(sf.sum("count").alias("count"))
    )


def _added(family: str, rows: DataFrame, step_ms: int) -> DataFrame:
    part = PARTS[family]
    at = rows.withColumn("ts_ms", sf.col("ts_ms") - sf.col("ts_ms") % step_ms)
    keys = ("ts_ms", *part.names)
    found = sums(at, family, keys)
    if part.stages:
        found = found.unionByName(buckets(at, part.stages, keys), allowMissingColumns=True)
        figures = [
            name for name in found.columns if name not in {*keys, "stage", "bucket", "count"}
        ]
        found = found.groupBy(*keys).agg(
            *(sf.max(name).alias(name) for name in figures),
            *(_times(stage).alias(stage) for stage in part.stages),
        )
        for stage in part.stages:
            found = found.withColumns(
                {f"{stage}_i": sf.col(stage)["bucket"], f"{stage}_n": sf.col(stage)["count"]}
            )
    found = found.withColumns({"family": sf.lit(family), "dt": _day_of(sf.col("ts_ms"))})
    return found.select(
        *(
            (sf.col(each.name) if each.name in found.columns else sf.lit(None))
            .cast(each.dataType)
            .alias(each.name)
            for each in ROLLUP
        )
    )


def _times(stage: str) -> Column:
    time = sf.when(sf.col("stage") == stage, sf.struct("bucket", "count"))
    return sf.sort_array(sf.collect_list(time))


def _day_of(ms: Column) -> Column:
    return sf.to_date(sf.timestamp_millis(ms))


def _together(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, parts)
