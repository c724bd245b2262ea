"""The streaming queries: rollups, quarantine and alerts, each with its own checkpoint and its own Delta table.

Rules:
- Each query reads the source itself. A batch with rows is one commit of its table. The commit names the stream and the
  number of the batch: a batch that was cut off and is repeated is there once.
- Duplicates are dropped by the rows' key. A row that is older than the newest by more than the watermark is dropped,
  and counted.
- The alerts of a batch go to the topic after they are in the table, and again if the batch is repeated: with the same
  ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.delta import append
from pipeline.hadoop import JAVA_ENDED
from pipeline.ingest.quality import Reason
from pipeline.schema import KEY
from pipeline.stream.alerts import ALERT, Windows, judged, seconds_of
from pipeline.stream.checkpoints import paired_id
from pipeline.stream.follow import Counts, follow, in_short
from pipeline.stream.lines import checked, quarantined, rows_of
from pipeline.stream.partitions import set_partitions
from pipeline.stream.sources import connector_options, is_broken
from pipeline.stream.throttled_window import WINDOW_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CLIENT: Final = ("user", "client_id", "instance")
SUMS: Final = (
    "requests", "charged", "request_bytes", "charged_bytes", "response_bytes",
    "throttled", "throttle_ms", "blocked_ms",
)  # fmt: skip
FAMILY: Final = "entity"
OUTPUTS: Final = ("alerts", "rollups", "quarantine")
"""The queries, and their tables in the output."""
_ROWS_OF_A_FILE: Final = 1_000_000
_AUTO_COMPACT: Final = "spark.databricks.delta.autoCompact.enabled"
"""Delta joins the files of a day when there are fifty: each batch with rows adds one."""
_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
"""The state of the rollups is on disk, not in Java's memory.

Spark would refuse a checkpoint whose first offsets were being written when the job was killed: they are in a file with
a temporary name. `paired_id` tells such a checkpoint from one that has lost its offsets.
"""


def by_minute(rows: DataFrame) -> DataFrame:
    """Return a row for each minute (UTC), user, client id and instance.

    `rows` are of the family `entity` with `ts`, their time. `seconds` counts them, `connection_ms` sums up how long
    connections were open. `blocked_share` is the part of it that throttles muted them, 0 to 1; null without connection.
    """
    open_ms = (sf.col("connections") * sf.col("window_ms")).alias("open_ms")
    minutes = rows.groupBy(sf.window("ts", "1 minute").alias("minute"), *CLIENT).agg(
        sf.count(sf.lit(1)).alias("seconds"),
        *(sf.sum(name).alias(name) for name in SUMS),
        sf.sum(open_ms).alias("connection_ms"),
    )
    blocked = sf.least(sf.lit(1.0), sf.try_divide(sf.col("blocked_ms"), sf.col("connection_ms")))
    start: Column = sf.col("minute.start")
    return minutes.select(
        start.alias("minute"),
        *CLIENT,
        "seconds",
        *SUMS,
        "connection_ms",
        sf.when(sf.col("connection_ms") > 0, blocked).alias("blocked_share"),
        sf.to_date(start).alias("dt"),
    )


@dataclass(frozen=True, slots=True)
class AlertsTopic:
    """The topic that gets the alerts, and the properties of the producer."""

    name: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream from `lines` (with `value` and `file`) to tables in the folder `output`; both places are URIs.

    `watermark` is how late a row may come, and `interval` the time between batches, both in Spark's words; without an
    interval the stream reads what is there, and ends. `alert_window` is that of the alerts in seconds.
    """

    spark: SparkSession
    lines: DataFrame
    output: str
    checkpoint: str
    watermark: str = "2 minutes"
    interval: str | None = None
    topic: AlertsTopic | None = None
    alert_window: int = WINDOW_SECONDS
    counts: Counts = field(default_factory=dict)

    def run(self, tell: Callable[[str], None]) -> None:
        """Run until the source is read to its end, or until a signal if there is an interval; tell of each batch.

        Raises PipelineError if the checkpoint belongs to another output, JobFailedError if a query fails.
        """
        for name, value in _SETTINGS.items():
            self.spark.conf.set(name, value)
        stream_id = paired_id(self.spark, self.output, self.checkpoint, OUTPUTS)
        tell(set_partitions(self.spark, self.checkpoint, OUTPUTS))
        starts = [partial(self._start, name, f"{stream_id}-{name}") for name in OUTPUTS]
        follow(starts, tell, partial(is_broken, self.spark), self.counts)

    def _start(self, name: str, app: str, broken: Collection[str]) -> StreamingQuery:
        """Start a query; files that are `broken` are not read."""
        lines = self.lines.where(~sf.col("file").isin(*broken)) if broken else self.lines
        frame = self._frame(name, checked(lines, FAMILY))
        writer = frame.writeStream.queryName(name).foreachBatch(partial(self._write, name, app))
        writer = writer.option("checkpointLocation", f"{self.checkpoint}/{name}")
        if self.interval is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self.interval).start()

    def _frame(self, name: str, lines: DataFrame) -> DataFrame:
        if name == "quarantine":
            return _observed(lines)
        rows = rows_of(lines, FAMILY)
        if name == "alerts":
            return seconds_of(rows)
        return by_minute(once(rows.withWatermark("ts", self.watermark)))

    def _write(self, name: str, app: str, batch: DataFrame, number: int) -> None:
        """Add a batch, or the alerts that it raises, to its table, once."""
        batch.sparkSession.conf.set(_AUTO_COMPACT, "true")
        rows = batch.persist()  # each reading would run the query's operators again
        try:
            if name == "alerts":
                self._judge(app, rows, number)
            else:
                self._append(name, app, rows, number)
            rows.unpersist()
        except JAVA_ENDED as error:
            raise in_short(error) from None

    def _append(self, name: str, app: str, rows: DataFrame, number: int) -> None:
        count = rows.count()
        if count or number == 0:  # readers find a table, if an empty one
            files = rows.coalesce(1 + count // _ROWS_OF_A_FILE)
            parts = [column for column in rows.columns if column == "dt"]
            append(files, f"{self.output}/{name}", app=app, version=number, partition_by=parts)

    def _judge(self, app: str, rows: DataFrame, number: int) -> None:
        windows = Windows(rows.sparkSession, f"{self.checkpoint}/windows")
        if windows.batch >= number:
            return  # the job was killed between the end of this batch and the note of it
        newest = rows.agg(sf.max("ts_ms")).collect()[0][0]
        watermark_ms = 0 if newest is None else newest - _ms(self.watermark)
        found = judged(rows, windows.read(), watermark_ms, self.alert_window).persist()
        alerts = found.where(sf.col("window").isNull()).select(*ALERT.names)
        day = sf.to_date(sf.timestamp_millis("at_ms"))
        self._append("alerts", app, alerts.withColumn("dt", day), number)
        if self.topic is not None:
            _send(alerts, self.topic)
        counts = {row["event"]: row["count"] for row in alerts.groupBy("event").count().collect()}
        self.counts["alerts", number] = counts
        windows.write(found.where(sf.col("window").isNotNull()), number)
        found.unpersist()


def _send(alerts: DataFrame, topic: AlertsTopic) -> None:
    value = sf.to_json(sf.struct(*ALERT.names)).alias("value")
    writer = alerts.select(sf.col("id").alias("key"), value).write.format("kafka")
    writer.options(**connector_options(topic.properties)).option("topic", topic.name).save()


def once(rows: DataFrame) -> DataFrame:
    """Return the rows of a stream with a watermark, without those that were delivered before."""
    return rows.dropDuplicatesWithinWatermark([*KEY])


def _observed(lines: DataFrame) -> DataFrame:
    counts = [
        sf.count_if(sf.col("reason") == str(each)).alias(f"quarantined ({each})") for each in Reason
    ]
    return quarantined(lines.observe("quarantine", *counts))


def _ms(words: str) -> int:
    """Return a time in Spark's words, such as `2 minutes`, in ms."""
    number, unit = words.split()
    return int(number) * {"milliseconds": 1, "seconds": 1000, "minutes": 60_000}[unit]
