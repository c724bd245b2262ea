"""Alerts for clients that a quota throttles most of the time, with a window (`ThrottledWindow`) for each.

Rules:
- Only clients that were throttled lately have a window.
- An alert is two rows, `raised` and `cleared`, with the same `id`. The id follows from the client and the time: a job
  that repeats a batch makes the same ids.
- The rows of a batch are judged in it. So an alert is late by the way of its rows and one batch. Seconds without rows
  are judged by the watermark: so a client that falls silent is cleared, as other clients' rows come.
- The windows after a batch are a folder of Parquet with its number. It is written last: a batch that has one is done.
  The folders before it are deleted.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped] # it has no types
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from pipeline.hadoop import FileSystem
from pipeline.inputs import literal
from pipeline.stream.throttled_window import Crossing, ThrottledWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

CLIENT: Final = ("instance", "user", "client_id")
_CLIENT_FIELDS: Final = tuple(StructField(name, StringType()) for name in CLIENT)
ALERT: Final = StructType(
    [
        StructField("id", StringType()),
        StructField("event", StringType()),
        StructField("at_ms", LongType()),
        StructField("raised_ms", LongType()),
        *_CLIENT_FIELDS,
        StructField("throttled_share", DoubleType()),
        StructField("quota", StringType()),
    ]
)
"""The columns of an alert. `at_ms` and `raised_ms` are Unix times in ms; `throttled_share` is that of the window."""
_WINDOW: Final = StructField("window", StringType())
_WINDOWS: Final = StructType([*_CLIENT_FIELDS, _WINDOW])
_JUDGED: Final = StructType([*ALERT, _WINDOW])
"""An alert, or a client's window after the batch."""
_SECOND: Final = ["ts_ms", "boot", "blocked_ms", "connections", "quota"]
_WRITTEN: Final = "_SUCCESS"


def seconds_of(rows: DataFrame) -> DataFrame:
    """Return of rows of the family `entity` what alerts are made of.

    The quota of a second is its entity and rate, such as `client-id=noisy 50.0`.
    """
    quota = sf.concat_ws(" ", "quota_entity", sf.col("quota_rate").cast("string"))
    connections = sf.coalesce("connections", sf.lit(0)).alias("connections")
    return rows.select(*CLIENT, "ts_ms", "boot", "blocked_ms", connections, quota.alias("quota"))


def judged(
    seconds: DataFrame, windows: DataFrame, watermark_ms: int, size_seconds: int
) -> DataFrame:
    """Return the alerts of a batch, and the windows after it: rows with `window`."""

    def of_client(key: tuple[pa.Scalar, ...], new: pa.Table, kept: pa.Table) -> pa.Table:
        client = tuple(each.as_py() for each in key)
        before = kept.column("window").to_pylist()
        rows = new.select(_SECOND).to_pylist()
        crossings, after = judge(before[0] if before else None, rows, watermark_ms, size_seconds)
        found = [alert_of(client, each) for each in crossings]
        if after is not None:
            found.append({**dict(zip(CLIENT, client, strict=True)), "window": after})
        return pa.Table.from_pylist(found, to_arrow_schema(_JUDGED))

    throttled = seconds.where(sf.col("blocked_ms") > 0).groupBy(*CLIENT)
    return throttled.cogroup(windows.groupBy(*CLIENT)).applyInArrow(of_client, _JUDGED)


def judge(
    before: str | None, rows: list[dict[str, object]], watermark_ms: int, size_seconds: int
) -> tuple[list[Crossing], str | None]:
    """Return a client's alerts in a batch, and its window after it; None if nothing can come of it any more."""
    window = ThrottledWindow.load(before, size_seconds) if before else ThrottledWindow(size_seconds)
    for row in rows:
        window.add(**row)  # type: ignore[arg-type] # the columns of _SECOND
    found = list(window.advance(window.newest_ms)) if rows else []
    found += window.advance(watermark_ms)
    return found, window.dump() if window else None


def alert_of(client: tuple[str, ...], crossing: Crossing) -> Mapping[str, object]:
    """Return the alert of a client (instance, user, client id) with the columns of ALERT."""
    words = json.dumps([*client, crossing.raised_ms])
    return {
        "id": hashlib.sha256(words.encode()).hexdigest()[:32],
        "event": "raised" if crossing.raised else "cleared",
        "at_ms": crossing.at_ms,
        "raised_ms": crossing.raised_ms,
        **dict(zip(CLIENT, client, strict=True)),
        "throttled_share": crossing.share,
        "quota": crossing.quota,
    }


class Windows:
    """The windows of all clients in the folder `uri`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        self._files = FileSystem(spark, uri)
        self._names = [name for name in self._files.names(uri) if name.isdigit()]
        there = (
            int(each) for each in self._names if self._files.exists(f"{uri}/{each}/{_WRITTEN}")
        )
        self.batch = max(there, default=-1)
        """The newest batch that is done."""

    def read(self) -> DataFrame:
        """Return the windows after the newest batch."""
        if self.batch < 0:
            return self._spark.createDataFrame([], _WINDOWS)
        return self._spark.read.schema(_WINDOWS).parquet(literal(f"{self._uri}/{self.batch}"))

    def write(self, windows: DataFrame, batch: int) -> None:
        """Replace the windows by those after a batch."""
        windows.write.mode("overwrite").parquet(f"{self._uri}/{batch}")
        for name in self._names:
            if name != str(batch):
                self._files.delete(f"{self._uri}/{name}")
