"""Alerts for clients that a quota throttles most of the time, with state for each instance, user and client id.

Rules:
- Only seconds with a throttle reach the operator, so other clients have no state.
- An alert is two rows, `raised` and `cleared`, with the same `id`. The id follows from the client and the time: a job
  that repeats a batch makes the same ids.
- The rows of a batch are judged in it. So an alert is late by the way of its rows and one batch, not by the watermark.
- Each client has one timer in event time, at which `ThrottledWindow` has something to judge without a row. So a client
  that falls silent is cleared, and its state removed, as other clients' rows advance the watermark.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import Row
from pyspark.sql.functions import coalesce, col, concat_ws, expr, lit, timestamp_millis, to_date
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from pipeline.stream.throttled_window import WINDOW_SECONDS, Crossing, ThrottledWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

CLIENT: Final = ("instance", "user", "client_id")
ALERT: Final = StructType(
    [
        StructField("id", StringType()),
        StructField("event", StringType()),
        StructField("at_ms", LongType()),
        StructField("raised_ms", LongType()),
        *(StructField(name, StringType()) for name in CLIENT),
        StructField("throttled_share", DoubleType()),
        StructField("quota", StringType()),
    ]
)
"""The columns of an alert. `at_ms` and `raised_ms` are Unix times in ms; `throttled_share` is that of the window."""


class ThrottleAlerts(StatefulProcessor):
    """Keeps the throttled seconds of each client, and makes its alerts by a window of so many seconds."""

    def __init__(self, window_seconds: int = WINDOW_SECONDS) -> None:
        self._window_seconds = window_seconds

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state: one text, the window as JSON."""
        self._handle = handle
        self._state = handle.getValueState("window", "json string")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[str, ...],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803 - as above
    ) -> Iterator[Row]:
        """Add the seconds of a batch, judge them, and return the alerts."""
        window = self._load()
        for row in rows:
            window.add(row.ts_ms, row.boot, row.blocked_ms, row.connections, row.quota)
        found = [alert_row(key, each) for each in window.advance(window.newest_ms)]
        self._store(window, timerValues.getCurrentWatermarkInMs())
        return iter(found)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[str, ...],
        timerValues: TimerValues,  # noqa: N803 - as above
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - as above
    ) -> Iterator[Row]:
        """Judge the silent seconds that the watermark has reached, and return the alerts."""
        window = self._load()
        if window.timer_ms == expiredTimerInfo.getExpiryTimeInMs():
            window.timer_ms = None  # Spark deletes a timer that has expired
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        found = [alert_row(key, each) for each in window.advance(watermark_ms)]
        self._store(window, watermark_ms)
        return iter(found)

    def _load(self) -> ThrottledWindow:
        found = self._state.get()
        size = self._window_seconds
        return ThrottledWindow.load(found[0], size) if found else ThrottledWindow(size)

    def _store(self, window: ThrottledWindow, watermark_ms: int) -> None:
        due_ms = window.due_ms()
        if due_ms is not None:
            due_ms = max(due_ms, watermark_ms + 1)
        if due_ms != window.timer_ms:
            if window.timer_ms is not None:
                self._handle.deleteTimer(window.timer_ms)
            if due_ms is not None:
                self._handle.registerTimer(due_ms)
            window.timer_ms = due_ms
        if due_ms is None:
            self._state.clear()
        else:
            self._state.update((window.dump(),))


def alert_row(client: tuple[str, ...], crossing: Crossing) -> Row:
    """Return the alert of a client (instance, user, client id) with the columns of ALERT."""
    words = json.dumps([*client, crossing.raised_ms])
    return Row(
        id=hashlib.sha256(words.encode()).hexdigest()[:32],
        event="raised" if crossing.raised else "cleared",
        at_ms=crossing.at_ms,
        raised_ms=crossing.raised_ms,
        **dict(zip(CLIENT, client, strict=True)),
        throttled_share=crossing.share,
        quota=crossing.quota,
    )


def throttled(rows: DataFrame) -> DataFrame:
    """Return the rows of seconds with a throttle.

    The condition names `ts`, or Spark would move it before the watermark: the watermark must follow all rows.
    """
    return rows.where(expr("blocked_ms > 0 or ts is null"))


def throttle_alerts(rows: DataFrame, window_seconds: int = WINDOW_SECONDS) -> DataFrame:
    """Return the alerts of a stream of throttled seconds, which has a watermark on `ts`, and their date `dt`.

    The quota of an alert is that of its second: its entity and rate, such as `client-id=noisy 50.0`.
    """
    seconds = rows.select(
        *CLIENT, "boot", "ts", "ts_ms", "blocked_ms",
        coalesce("connections", lit(0)).alias("connections"),
        concat_ws(" ", "quota_entity", col("quota_rate").cast("string")).alias("quota"),
    )  # fmt: skip
    alerts = seconds.groupBy(*CLIENT).transformWithState(
        ThrottleAlerts(window_seconds), ALERT, outputMode="Append", timeMode="EventTime"
    )
    return alerts.withColumn("dt", to_date(timestamp_millis("at_ms")))
