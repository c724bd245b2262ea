"""Sums by the minute, for batches and streams alike: what each client asked for, and how long it was throttled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import col, least, lit, to_date, try_divide, when, window
from pyspark.sql.functions import count as count_of
from pyspark.sql.functions import sum as sum_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
