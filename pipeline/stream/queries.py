"""The streaming queries: rollups, quarantine and alerts, each with its own checkpoint, and the alerts' way to a topic.

Rules:
- Each query reads the source itself and ends in Spark's file sink, whose `_spark_metadata` names the files that count:
  a batch that was cut off and repeated is there once. Read the outputs with Spark, which honours it.
- Duplicates are dropped by the rows' key. A row that is older than the newest by more than the watermark is dropped,
  and counted.
- The alerts' topic is fed from the alerts' files. Kafka's sink writes at least once, so an alert may be there twice,
  with the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import (
    col,
    count_if,
    least,
    lit,
    struct,
    to_date,
    to_json,
    try_divide,
    when,
    window,
)
from pyspark.sql.functions import count as count_of
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.types import DateType, StructField, StructType

from pipeline.ingest.quality import Reason
from pipeline.schema import KEY
from pipeline.stream.alerts import ALERT, throttle_alerts, throttled
from pipeline.stream.checkpoints import check_checkpoint
from pipeline.stream.follow import follow
from pipeline.stream.lines import checked, quarantined, rows_of
from pipeline.stream.sources import connector_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


CLIENT: Final = ("user", "client_id", "instance")
SUMS: Final = (
    "requests",
    "charged",
    "request_bytes",
    "charged_bytes",
    "response_bytes",
    "throttled",
    "throttle_ms",
    "blocked_ms",
)

FAMILY: Final = "entity"
_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
"""The operator of the alerts works with RocksDB only.

Spark would refuse a checkpoint whose first offsets were being written when the job was killed: they are in a file with
a temporary name. `check_checkpoint` tells such a checkpoint from one that has lost its offsets.
"""


def by_minute(rows: DataFrame) -> DataFrame:
    """Return a row for each minute (UTC), user, client id and instance.

    `rows` are of the family `entity` with `ts`, their time. `seconds` counts them, `connection_ms` sums up how long
    connections were open. `blocked_share` is the part of it that throttles muted them, 0 to 1; null without connection.
    """
    open_ms = (col("connections") * col("window_ms")).alias("open_ms")
    minutes = rows.groupBy(window("ts", "1 minute").alias("minute"), *CLIENT).agg(
        count_of(lit(1)).alias("seconds"),
        *(sum_of(name).alias(name) for name in SUMS),
        sum_of(open_ms).alias("connection_ms"),
    )
    blocked = least(lit(1.0), try_divide(col("blocked_ms"), col("connection_ms")))
    start: Column = col("minute.start")
    return minutes.select(
        start.alias("minute"),
        *CLIENT,
        "seconds",
        *SUMS,
        "connection_ms",
        when(col("connection_ms") > 0, blocked).alias("blocked_share"),
        to_date(start).alias("dt"),
    )


@dataclass(frozen=True, slots=True)
class AlertsTopic:
    """The topic that gets the alerts, and the properties of the producer."""

    name: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream from `lines` (with `value` and `file`) to folders of `output`, which are URIs.

    `watermark` is how late a row may come, and `interval` the time between batches, both in Spark's words; without an
    interval the stream reads what is there, and ends.
    """

    spark: SparkSession
    lines: DataFrame
    output: str
    checkpoint: str
    watermark: str = "2 minutes"
    interval: str | None = None
    topic: AlertsTopic | None = None

    def run(self, tell: Callable[[str], None]) -> None:
        """Run until the source is read to its end, or without end if there is an interval; tell of each batch.

        Raises PipelineError if a checkpoint belongs to another output, JobFailedError if a query fails.
        """
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        lines = checked(self.lines, FAMILY)
        rows = rows_of(lines, FAMILY).withWatermark("ts", self.watermark)
        frames = {
            "alerts": _counted(throttle_alerts(once(throttled(rows)))),
            "rollups": by_minute(once(rows)),
            "quarantine": _observed(lines),
        }
        for name in frames:
            check_checkpoint(self.spark, f"{self.output}/{name}", f"{self.checkpoint}/{name}")
        starts = [partial(self._to_files, name, frame) for name, frame in frames.items()]
        if self.topic is not None and self.interval is None:
            follow(starts, tell)
            starts = [partial(self._to_topic, self.topic)]
        elif self.topic is not None:
            starts.append(partial(self._to_topic, self.topic))
        follow(starts, tell)

    def _to_files(self, name: str, frame: DataFrame) -> StreamingQuery:
        partitions = [column for column in frame.columns if column == "dt"]
        writer = frame.writeStream.format("parquet").partitionBy(*partitions)
        return self._started(name, writer.option("path", f"{self.output}/{name}"))

    def _to_topic(self, topic: AlertsTopic) -> StreamingQuery:
        columns = StructType(
            [*ALERT, StructField("dt", DateType())]
        )  # Spark finds dt with the first file only
        alerts = self.spark.readStream.schema(columns).parquet(f"{self.output}/alerts")
        value = to_json(struct(*ALERT.names)).alias("value")
        writer = alerts.select(col("id").alias("key"), value).writeStream.format("kafka")
        writer = writer.options(**connector_options(topic.properties)).option("topic", topic.name)
        return self._started("alerts-topic", writer)

    def _started(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        writer = writer.queryName(name).option("checkpointLocation", f"{self.checkpoint}/{name}")
        if self.interval is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self.interval).start()


def once(rows: DataFrame) -> DataFrame:
    """Return the rows of a stream with a watermark, without those that were delivered before."""
    return rows.dropDuplicatesWithinWatermark([*KEY])


def _observed(lines: DataFrame) -> DataFrame:
    counts = [
        count_if(col("reason") == str(each)).alias(f"quarantined ({each})") for each in Reason
    ]
    return quarantined(lines.observe("quarantine", *counts))


def _counted(alerts: DataFrame) -> DataFrame:
    counts = [count_if(col("event") == event).alias(event) for event in ("raised", "cleared")]
    return alerts.observe("alerts", *counts)
