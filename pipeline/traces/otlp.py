"""Reads files of OTLP/JSON lines: one row per span of Sluice, and one per line or span that could not be read.

Rules:
- A line is one export (`resourceSpans`), as Sluice's own file and OpenTelemetry's file exporters write it. The names of
  fields may be those of JSON or of protobuf (`resource_spans`), ids hexadecimal or base64, kinds numbers or names.
- The schema is given. A line that is cut off, is no JSON or has no `resourceSpans`, and a span without valid ids or
  times, become rows with a `reason`; nothing is dropped silently.
- Spans of other programs, which a collector may write into the same file, have the reason OTHER_PROGRAM.
- Times are nanoseconds since the epoch, durations nanoseconds.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from pipeline.inputs import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

SCOPE: Final = "sluice"
"""The instrumentation scope of Sluice's spans; the name of the service is the user's to choose."""
TORN: Final = "not one JSON object in a line"
NOT_TRACES: Final = "no resourceSpans: not a line of OTLP traces"
BAD_ID: Final = "a span without a trace id of 16 and a span id of 8 bytes, hexadecimal or base64"
BAD_TIME: Final = "a span whose start and end are not nanoseconds in order, at most a year apart"
OTHER_PROGRAM: Final = "a span of another program"
MAX_QUARANTINED_CHARS: Final = 4096
"""How much of a line that cannot be read is kept."""
_YEAR_NS: Final = 366 * 86_400 * 10**9
_VALUE: Final = (
    "struct<stringValue: string, intValue: string,"
    " arrayValue: struct<values: array<struct<stringValue: string>>>>"
)
_ATTRIBUTES: Final = f"array<struct<key: string, value: {_VALUE}>>"
_SPAN: Final = (
    "struct<traceId: string, spanId: string, parentSpanId: string, name: string, kind: string,"
    " startTimeUnixNano: string, endTimeUnixNano: string,"
    f" attributes: {_ATTRIBUTES}, links: array<struct<traceId: string>>>"
)
_CORRUPT: Final = "_corrupt_record"
LINE_SCHEMA: Final = (
    f"resourceSpans array<struct<resource: struct<attributes: {_ATTRIBUTES}>,"
    f" scopeSpans: array<struct<scope: struct<name: string>, spans: array<{_SPAN}>>>>>,"
    f" {_CORRUPT} string"
)
_PROTOBUF_NAMES: Final = {
    "resource_spans": "resourceSpans",
    "scope_spans": "scopeSpans",
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_span_id": "parentSpanId",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "string_value": "stringValue",
    "int_value": "intValue",
    "array_value": "arrayValue",
}
_TEXTS: Final = {
    "user": "user.name",
    "client_id": "messaging.client.id",
    "api": "messaging.operation.name",
    "topic": "messaging.destination.name",
    "outcome": "sluice.outcome",
    "error": "error.type",
    "quota_entity": "sluice.quota.entity",
    "quota_name": "sluice.quota.name",
}
"""Columns of text, and the attributes that they come from."""


def read_spans(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Return the spans of these files, folders or globs; see the rules above.

    `reason` is null for a span of Sluice, else why the row has nothing but `file` and `line`. `request` is the trace id
    of the request that the span belongs to: that of the link of a `mute`. Raises PipelineError if there is no file.
    """
    lines = spark.read.text([readable(spark, uri, "a file of traces") for uri in uris])
    return spans_of(lines.select("value", f.col("_metadata.file_path").alias("file")))


def spans_of(lines: DataFrame) -> DataFrame:
    """Return the spans of lines of text with the columns `value` and `file`, as `read_spans` does."""
    named = f.when(f.col("value").contains('"resource_spans"'), _renamed(f.col("value")))
    text = f.coalesce(named, f.col("value"))
    line = f.from_json(
        text, LINE_SCHEMA, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    )
    exports = (
        lines.where(f.trim("value") != "")
        .select("file", "value", line.alias("of"))
        .select(
            "file",
            f.when(f.col("of").isNull() | f.col(f"of.{_CORRUPT}").isNotNull(), TORN)
            .when(f.col("of.resourceSpans").isNull(), NOT_TRACES)
            .alias("unread"),
            "value",
            f.col("of.resourceSpans").alias("exports"),
        )
    )
    spans = (
        exports.select(
            "file", "unread", _kept(f.col("unread")), f.explode_outer("exports").alias("of")
        )
        .select(
            *("file", "unread", "line"),
            _text("of.resource.attributes", "service.name").alias("service"),
            f.explode_outer("of.scopeSpans").alias("of"),
        )
        .select(
            *("file", "unread", "line", "service", f.col("of.scope.name").alias("scope")),
            f.explode_outer("of.spans").alias("span"),
        )
        .where("unread is not null or span is not null")
    )
    return _columns(spans)


def _renamed(text: Column) -> Column:
    """Return the line with the names of JSON. A quote inside a value is escaped, so only names match."""
    return reduce(
        lambda made, pair: f.regexp_replace(made, f'"{pair[0]}"(?=\\s*:)', f'"{pair[1]}"'),
        _PROTOBUF_NAMES.items(),
        text,
    )


def _kept(unread: Column) -> Column:
    return f.when(unread.isNotNull(), f.substring("value", 1, MAX_QUARANTINED_CHARS)).alias("line")


def _columns(spans: DataFrame) -> DataFrame:
    start, end = (f.col(f"span.{name}TimeUnixNano").try_cast("bigint") for name in ("start", "end"))
    took = f.try_subtract(end, start)
    linked = f.when(
        (f.col("span.name") == "mute") & f.col("span.parentSpanId").isNull(),
        f.get("span.links", f.lit(0))["traceId"],
    )
    found = spans.withColumns(
        {
            "trace": _id(f.col("span.traceId"), 16),
            "id": _id(f.col("span.spanId"), 8),
            "linked": _id(linked, 16),
            "start_ns": start,
            "took_ns": f.when((start >= 0) & took.between(0, _YEAR_NS), took),
        }
    )
    reason = (
        f.when(f.col("unread").isNotNull(), f.col("unread"))
        .when(~f.col("scope").eqNullSafe(SCOPE), OTHER_PROGRAM)
        .when(f.col("trace").isNull() | f.col("id").isNull(), BAD_ID)
        .when(f.col("took_ns").isNull(), BAD_TIME)
    )
    bad_span = reason.isin(BAD_ID, BAD_TIME)
    return found.select(
        "file",
        reason.alias("reason"),
        f.when(bad_span, f.substring(f.to_json("span"), 1, MAX_QUARANTINED_CHARS))
        .otherwise(f.col("line"))
        .alias("line"),
        "service",
        f.coalesce("linked", "trace").alias("request"),
        "id",
        f.when(f.col("span.kind").isin("2", "SPAN_KIND_SERVER"), "server")
        .otherwise(f.col("span.name"))
        .alias("part"),
        "start_ns",
        "took_ns",
        *(_text("span.attributes", key).alias(name) for name, key in _TEXTS.items()),
        _attribute("span.attributes", "sluice.reasons")["arrayValue"]["values"][
            "stringValue"
        ].alias("reasons"),
        _attribute("span.attributes", "sluice.throttle_time_ms")["intValue"]
        .try_cast("bigint")
        .alias("throttle_time_ms"),
    )


def _attribute(attributes: str, key: str) -> Column:
    place = f.array_position(f"{attributes}.key", key) - 1  # -1 is no place; faster than a lambda
    return f.get(f"{attributes}.value", place)


def _text(attributes: str, key: str) -> Column:
    return _attribute(attributes, key)["stringValue"]


def _id(text: Column, size: int) -> Column:
    """Return an id of `size` bytes as lower-case hexadecimal; null if it is neither that nor base64."""
    base64 = f.lower(f.hex(f.try_to_binary(text, f.lit("base64"))))
    return f.when(text.rlike(f"^[0-9a-fA-F]{{{2 * size}}}$"), f.lower(text)).when(
        (f.length(text) == 4 * -(-size // 3)) & (f.length(base64) == 2 * size), base64
    )
