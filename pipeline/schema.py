"""The columns of every family of the usage log, as Spark types: the one place that names them.

Rules:
- Names and order are those of the rows that the proxy writes (docs: usage log columns); tests hold both together.
- Every column may be null: a row of an older writer lacks columns that were added since.
- Schemas are always given, never inferred: inference reads all files twice and guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
"""The newest major version of the rows that this pipeline understands."""
WINDOW_MS: Final = 1000

_TEXT, _INT, _LONG, _REAL = StringType(), IntegerType(), LongType(), DoubleType()
_INTS, _LONGS = ArrayType(IntegerType()), ArrayType(LongType())


def _fields(kind: DataType, names: str) -> Iterator[StructField]:
    return (StructField(name, kind) for name in names.split())


def _family(*fields: Iterator[StructField]) -> StructType:
    head = (
        *_fields(_TEXT, "family"),
        *_fields(_INT, "v"),
        *_fields(_TEXT, "instance boot"),
        *_fields(_LONG, "seq ts_ms"),
    )
    return StructType([*head, *(field for some in fields for field in some)])


STAGES: Final = ("upstream", "receive", "memory", "throttle", "purgatory")
"""Where a request waits; family `api` has a histogram of each."""
DELAY: Final = "delay"
"""All time by which quotas delay a client for a request: `throttle`, and the pause after it. Older rows lack it."""


def _histograms() -> Iterator[StructField]:
    for stage in (*STAGES, DELAY):
        yield StructField(f"{stage}_i", _INTS)
        yield StructField(f"{stage}_n", _LONGS)


ENTITY: Final = _family(
    _fields(_INT, "window_ms"),
    _fields(_TEXT, "user client_id"),
    _fields(_LONG, "requests charged exempt"),
    _fields(_LONG, "request_bytes charged_bytes exempt_bytes response_bytes"),
    _fields(_INT, "connections"),
    _fields(_LONG, "throttled throttle_ms throttle_ms_max blocked_ms mute_ms"),
    _fields(_TEXT, "enforcement quota_entity"),
    _fields(_REAL, "quota_rate"),
    _fields(_TEXT, "quota_rev"),
)
API: Final = _family(
    _fields(_INT, "window_ms"),
    _fields(_TEXT, "user client_id"),
    _fields(_INT, "api_key"),
    _fields(_TEXT, "api"),
    _fields(_LONG, "requests replied no_reply answered expired disconnected"),
    _fields(_LONG, "request_bytes response_bytes"),
    _histograms(),
)
INSTANCE: Final = _family(
    _fields(_INT, "window_ms"),
    _fields(_TEXT, "version"),
    _fields(_LONG, "keys sessions steps"),
    _fields(_REAL, "step_us_p50 step_us_p99"),
    _fields(_LONG, "request_pool_size_bytes request_pool_used_bytes request_pool_depleted_ms"),
    _fields(_LONG, "response_pool_size_bytes response_pool_used_bytes response_pool_depleted_ms"),
    _fields(_LONG, "held watched timers expired_produce_total expired_fetch_total"),
    _fields(_LONG, "rows_dropped_total rows_unpublished_total spans_dropped_total"),
    _fields(_LONG, "files_deleted_total topics_unread_total"),
)
TOPIC: Final = _family(
    _fields(_INT, "window_ms"),
    _fields(_TEXT, "user topic"),
    _fields(_LONG, "produce_requests produce_partitions produce_bytes produce_batches"),
    _fields(_LONG, "produce_records fetch_replies fetch_partitions fetch_bytes fetch_batches"),
    _fields(_LONG, "fetch_records"),
)
ACCESS: Final = _family(
    _fields(_INT, "window_ms"),
    _fields(_TEXT, "user proof client_id policy kind name operation"),
    _fields(_LONG, "requests"),
)
CAPTURE: Final = _family(
    _fields(_LONG, "event now_ms session exchange"),
    _fields(_TEXT, "user client_id"),
    _fields(_INT, "node api_key api_version acks"),
    _fields(_LONG, "size_bytes"),
    _fields(BooleanType(), "charged"),
    _fields(_TEXT, "verdict"),
    _fields(_LONG, "delay_ms"),
    _fields(_LONGS, "released_event released_ms"),
    _fields(_LONG, "replied_event replied_ms reply_bytes reply_throttle_time_ms reply_delay_ms"),
    _fields(_TEXT, "outcome"),
    _fields(_LONG, "ended_ms"),
)
FAMILIES: Final = {
    "entity": ENTITY,
    "api": API,
    "instance": INSTANCE,
    "topic": TOPIC,
    "access": ACCESS,
    "capture": CAPTURE,
}
DATED: Final = StructType([*_fields(DateType(), "dt"), *_fields(_INT, "hour")])
"""The day and the hour of `ts_ms`, UTC: the partitions of a family."""
PARTITIONS: Final = tuple(DATED.names)
_COUNTS: Final = MapType(StringType(), LongType())
QUARANTINE: Final = StructType(
    [
        *_fields(_TEXT, "reason family file line"),
        *_fields(DateType(), "dt"),
        *_fields(_LONG, "batch"),
    ]
)
"""Lines that are no rows; `dt` is the day of the file's folder."""
SEQUENCES: Final = StructType(
    [
        *_fields(_TEXT, "family"),
        *DATED,
        *_fields(_TEXT, "instance boot"),
        *_fields(_LONG, "first_seq last_seq rows first_ms last_ms batch"),
    ]
)
"""The unbroken ranges of sequence numbers of each writer in each hour. A range of lines in quarantine has 0 rows."""
FILES: Final = StructType(
    [
        *_fields(_TEXT, "path"),
        *_fields(_LONG, "size_bytes modified_ms batch"),
        *_fields(_TEXT, "run"),
    ]
)
"""The files that were read: the intent of each batch."""
BATCHES: Final = StructType(
    [
        *_fields(_LONG, "batch finished_ms duplicates first_ms last_ms"),
        *_fields(_COUNTS, "lines rows_added"),
        *_fields(MapType(StringType(), _COUNTS), "quarantined"),
        *_fields(_COUNTS, "lost_rows gaps"),
        *_fields(ArrayType(_TEXT), "clock_jumps overlaps"),
        *_fields(BooleanType(), "abandoned"),
    ]
)
"""The batches that are complete, and their figures; those from `lost_rows` on are of the tables as a whole."""
RECORDS: Final = {
    "quarantine": QUARANTINE,
    "sequences": SEQUENCES,
    "files": FILES,
    "batches": BATCHES,
}
"""The tables that `ingest` writes beside the families."""
RETENTION: Final = StructType([*_fields(DateType(), "first_day"), *_fields(_LONG, "set_ms")])
"""Since when `maintain` has kept which days; the last first day counts."""
KEY: Final = ("instance", "boot", "family", "seq")
"""The columns that identify a row; a row that was delivered twice has them twice."""
PIPELINE_CLIENT: Final = "sluice-pipeline"
"""The client id with which a stream reads a topic, perhaps through Sluice: it is nobody's usage."""
