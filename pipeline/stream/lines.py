"""Reads lines of the usage log as rows, by the rules of `ingest`; lines that are no rows are set aside.

Rules:
- A row may be at most MAX_AHEAD_MS ahead of this job's clock: it would move the watermark, and the rows of all other
  clients would be late.
- Lines of other families are left out: a topic has the lines of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.ingest.quality import Reason, parsed
from pipeline.schema import FAMILIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_AHEAD_MS: Final = 60_000
"""How far a writer's clock may be ahead of this job's."""
MAX_LINE_CHARS: Final = 4096
"""A line in quarantine is cut to this length."""


def checked(lines: DataFrame, family: str, now_ms: Column | None = None) -> DataFrame:
    """Return the columns of a family, `reason` (null for a row), `line` and `file`, for lines with `value` and `file`.

    `now_ms` is the present, by default the time of the batch.
    """
    now_ms = sf.unix_millis(sf.current_timestamp()) if now_ms is None else now_ms
    own = lines.where(_may_be_of(family)).withColumn("day", sf.lit(None).cast("date"))
    rows = parsed(own, family, now_ms).drop("day", "dt", "hour")
    ahead = sf.col("ts_ms") > now_ms + MAX_AHEAD_MS
    future = sf.when(ahead, sf.lit(str(Reason.FUTURE)))
    return rows.withColumn("reason", sf.coalesce("reason", future))


def rows_of(lines: DataFrame, family: str) -> DataFrame:
    """Return the rows among checked lines: the columns of the family, and `ts`, their time as a timestamp."""
    rows = lines.where(sf.col("reason").isNull())
    return rows.select(*FAMILIES[family].names, sf.timestamp_millis("ts_ms").alias("ts"))


def quarantined(lines: DataFrame) -> DataFrame:
    """Return the others among checked lines: `reason`, `family`, `file` and `line`, which is cut to MAX_LINE_CHARS."""
    line = sf.left("line", sf.lit(MAX_LINE_CHARS)).alias("line")
    return lines.where(sf.col("reason").isNotNull()).select("reason", "family", "file", line)


def _may_be_of(family: str) -> Column:
    """Return whether a line names the family, or no family. Quotes in a client's name are escaped in JSON."""
    others = "|".join(sorted(FAMILIES.keys() - {family}))
    value = sf.col("value")
    return value.rlike(f'"family": ?"{family}"') | ~value.rlike(f'"family": ?"({others})"')
