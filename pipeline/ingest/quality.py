"""Parses the lines of one family and says which of them are no rows, and why.

Rules:
- A line that is refused keeps its text, its file and one reason, the first that applies in the order of Reason.
- A row that passes has a key, a whole second, and counts between 0 and MAX_COUNT: sums of it cannot overflow.
"""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pipeline.schema import FAMILIES, STAGES, VERSION, WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
MAX_COUNT: Final = 10**15
"""The greatest count that is believed: a petabyte in a second. Also the greatest number of any kind."""
LAST_BUCKET: Final = 240
"""The last bucket of a histogram."""
_CORRUPT: Final = "_corrupt_record"
_MAY_BE_NEGATIVE: Final = {"acks", "node"}
_KEYS: Final = ("v", "instance", "boot", "seq", "ts_ms", "user", "client_id", "topic", "api_key")


class Reason(StrEnum):
    """Why a line is in quarantine."""

    TORN = "torn"
    UNKNOWN_VERSION = "unknown_version"
    WRONG_TYPE = "wrong_type"
    WRONG_FAMILY = "wrong_family"
    MISSING_KEY = "missing_key"
    BAD_TIME = "bad_time"
    FUTURE = "future"
    EARLY = "early"
    LATE = "late"
    BAD_VALUE = "bad_value"
    CONFLICT = "conflict"


def parsed(lines: DataFrame, family: str, now_ms: int | Column) -> DataFrame:
    """Return the columns of the family, reason, line, file, day, dt and hour, for lines with value, file and day.

    `reason` is null for a row; `line` is null with it. `dt` and `hour` are the row's own.
    """
    schema = FAMILIES[family]
    wide = StructType([*schema, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    rows = lines.where(sf.octet_length("value") > 0).select(
        "value", "file", "day", sf.from_json("value", wide, options).alias("row")
    )
    flat = rows.select("value", "file", "day", "row.*")
    checked = flat.withColumn("reason", _reason(family, now_ms))
    at_ms = sf.when(sf.col("reason").isNull(), sf.col("ts_ms"))
    return checked.select(
        *schema.names,
        "reason",
        sf.when(sf.col("reason").isNotNull(), sf.col("value")).alias("line"),
        "file",
        "day",
        sf.date_from_unix_date(sf.floor(at_ms / DAY_MS).cast("int")).alias("dt"),
        sf.floor(at_ms % DAY_MS / HOUR_MS).cast("int").alias("hour"),
    )


def _reason(family: str, now_ms: int | Column) -> Column:
    names = FAMILIES[family].names
    keys = [sf.col(name) for name in _KEYS if name in names]
    ts_ms = sf.col("ts_ms")
    day_ms = sf.unix_date("day").cast("bigint") * DAY_MS
    # A row has one object without inner ones. Names with braces only cost a closer look. Bytes are compared: a position
    # in characters takes longer than the rest of the checks.
    line = sf.col("value").cast("binary")
    before_last = sf.substring(line, sf.lit(1), sf.length(line) - 1)
    other_braces = ~sf.endswith(line, sf.lit(b"}")) | sf.contains(before_last, sf.lit(b"}"))
    checks = (
        (sf.col(_CORRUPT).isNotNull() | other_braces, _broken()),
        (sf.col("v") > VERSION, Reason.UNKNOWN_VERSION),
        (_any(key.isNull() for key in (sf.col("family"), *keys)), Reason.MISSING_KEY),
        (sf.col("family") != family, Reason.WRONG_FAMILY),
        ((ts_ms % WINDOW_MS != 0) | (ts_ms < 0), Reason.BAD_TIME),
        (ts_ms > now_ms + DAY_MS, Reason.FUTURE),
        (ts_ms >= day_ms + 2 * DAY_MS, Reason.EARLY),
        (ts_ms < day_ms - DAY_MS, Reason.LATE),
        (_bad_value(family), Reason.BAD_VALUE),
    )
    return sf.coalesce(
        *(
            sf.when(check, sf.lit(str(reason)) if isinstance(reason, Reason) else reason)
            for check, reason in checks
        )
    )


def _broken() -> Column:
    """Return why a line does not fit the schema; null if it does, and only a client's name has braces."""
    wrapped = sf.concat(sf.lit("["), "value", sf.lit("]"))
    is_one = sf.coalesce(sf.json_array_length(wrapped) == 1, sf.lit(False))
    version = sf.get_json_object("value", "$.v")
    return (
        sf.when(~is_one | ~sf.ltrim("value").startswith("{"), str(Reason.TORN))
        .when(sf.col(_CORRUPT).isNull(), None)
        .when(version.rlike(r"^([2-9]|\d{2,})$"), str(Reason.UNKNOWN_VERSION))
        .otherwise(str(Reason.WRONG_TYPE))
    )


def _bad_value(family: str) -> Column:
    """Return whether a count is negative or unbelievable, or a histogram's two lists do not belong together."""
    schema = FAMILIES[family]
    counts = [
        sf.col(field.name).cast("bigint")
        for field in schema
        if isinstance(field.dataType, IntegerType | LongType) and field.name not in _MAY_BE_NEGATIVE
    ]
    reals = [sf.col(field.name) for field in schema if isinstance(field.dataType, DoubleType)]
    checks = [sf.least(*counts) < 0, sf.greatest(*counts) > MAX_COUNT, sf.col("seq") < 1]
    if "window_ms" in schema.names:
        checks.append(sf.col("window_ms") != WINDOW_MS)
    checks += [~((real >= 0) & (real <= float(MAX_COUNT))) for real in reals]
    if "upstream_i" in schema.names:
        for stage in STAGES:
            buckets, numbers = f"{stage}_i", f"{stage}_n"
            checks += [
                ~sf.size(buckets).eqNullSafe(sf.size(numbers)),
                (sf.array_min(buckets) < 0) | (sf.array_max(buckets) > LAST_BUCKET),
                (sf.array_min(numbers) < 1) | (sf.array_max(numbers) > MAX_COUNT),
            ]
        both = sf.concat(
            *(sf.col(f"{stage}_{kind}").cast("array<bigint>") for stage in STAGES for kind in "in")
        )
        checks.append(sf.exists(both, lambda each: each.isNull()))
    return _any(sf.coalesce(check, sf.lit(False)) for check in checks)


def _any(checks: Iterable[Column]) -> Column:
    return reduce(or_, checks)
