"""Reading OTLP/JSON lines: the proxy's own file, other exporters' forms of it, and what is no trace at all."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson, ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.traces import otlp
from pipeline.traces.otlp import read_spans
from policies.api import Outcome
from tests.support.telemetry.request_traces import EPOCH_US, PEER, trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces

COLUMNS = ("part", "request", "id", "start_ns", "took_ns", "user", "api", "reasons", "outcome")


def read(spark: SparkSession, *paths: Path) -> list[dict[str, Any]]:
    """Return the rows as dictionaries."""
    return read_spans(spark, list(map(str, paths))).toArrow().to_pylist()


def readable(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the columns of the spans, sorted."""
    return sorted(
        (tuple(row[name] for name in COLUMNS) for row in rows if row["reason"] is None), key=str
    )


def test_each_span_of_the_proxys_file_is_one_row(spark: SparkSession, tmp_path: Path) -> None:
    """Ids, times and attributes are those of the tracer; a mute belongs to the request that it is linked to."""
    stages = waits(("receive", 700), ("throttle", 1_500_001))
    made = trace(stages, 5_000, outcome=Outcome.EXPIRED, quiet_ms=40)
    spans = spans_with_mute(made, mute_us=40_123)
    path = write_traces(tmp_path / "traces.jsonl", spans)
    rows = read(spark, path)

    assert [row["reason"] for row in rows] == [None] * 5
    assert [row["id"] for row in rows] == [f"{span.span_id:016x}" for span in spans]
    assert {row["request"] for row in rows} == {made.trace_id}
    assert [row["part"] for row in rows] == ["server", "receive", "throttle", "upstream", "mute"]
    assert [row["took_ns"] for row in rows] == [
        1_505_701_000,
        700_000,
        1_500_001_000,
        5_000_000,
        40_123_000,
    ]
    server = rows[0]
    assert server["start_ns"] == EPOCH_US * 1000
    assert {name: server[name] for name in ("user", "client_id", "api", "outcome", "error")} == {
        "user": "alice",
        "client_id": "billing-1",
        "api": "Produce",
        "outcome": "expired",
        "error": "expired",
    }
    assert server["reasons"] == ["throttled", "expired"]
    assert (server["throttle_time_ms"], server["service"]) == (40, "orders-proxy")


def test_other_exporters_forms_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Protobuf's JSON with base64 ids and names of kinds, its field names, and numbers for text are read, too."""
    spans = spans_with_mute(trace(waits(("throttle", 900)), quiet_ms=3), mute_us=3_000)
    own = write_traces(tmp_path / "own.jsonl", spans)
    export = json.loads(own.read_text())
    numbers = json.loads(own.read_text())
    for span in export["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for ids in (span, *span.get("links", ())):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in ids:
                    ids[name] = base64.b64encode(bytes.fromhex(ids[name])).decode()
    for span in numbers["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["startTimeUnixNano"] = int(span["startTimeUnixNano"])
    message = ParseDict(export, TracesData())
    forms = {
        "camel": MessageToJson(message, indent=None),
        "snake": MessageToJson(message, indent=None, preserving_proto_field_name=True),
        "numbers": json.dumps(numbers),
    }
    expected = readable(read(spark, own))

    assert len(expected) == 4
    assert '"trace_id"' in forms["snake"]
    for name, line in forms.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(f"{line}\n\n")
        assert readable(read(spark, path)) == expected, name


def test_a_value_that_looks_like_a_field_is_not_renamed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A client that is called `"resource_spans": "trace_id":` stays so."""
    name = '"resource_spans": "trace_id":'
    made = trace(peer=replace(PEER, client_id=name))
    (row, *_) = read(spark, write_traces(tmp_path / "t", spans_with_mute(made)))

    assert row["client_id"] == name


def test_what_cannot_be_read_is_kept_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    """Torn lines, other JSON, spans without ids or with times that run backwards, and spans of other programs."""
    good = spans_with_mute(trace())
    whole = write_traces(tmp_path / "good", good).read_text()
    bad = [
        {"traceId": "12", "spanId": "34"},
        {"traceId": "zz" * 16, "spanId": "1" * 16},
        {"traceId": "1" * 32, "spanId": "1" * 16, "startTimeUnixNano": "9", "endTimeUnixNano": "5"},
        {"traceId": "1" * 32, "spanId": "1" * 16, "startTimeUnixNano": "x", "endTimeUnixNano": "5"},
        {"traceId": "1" * 32, "spanId": "1" * 16, "endTimeUnixNano": "9" * 25},
    ]
    of = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "sluice"}, "spans": bad}]}]}
    lines = [whole[: len(whole) // 2], "[1]", "5", '{"a": 1}', '{"resourceSpans": 5}', "\0\1\2"]
    path = tmp_path / "traces.jsonl"
    path.write_text(whole + "".join(f"{line}\n" for line in (*lines, json.dumps(of))))
    write_traces(tmp_path / "other", good, scope="io.other")
    rows = read(spark, path, tmp_path / "other")
    reasons = [row["reason"] for row in rows]
    torn = next(row for row in rows if row["reason"] == otlp.TORN)

    assert reasons.count(None) == len(good)
    assert reasons.count(otlp.TORN) == 5
    assert reasons.count(otlp.NOT_TRACES) == 1
    assert reasons.count(otlp.BAD_ID) == 2
    assert reasons.count(otlp.BAD_TIME) == 3
    assert reasons.count(otlp.OTHER_PROGRAM) == len(good)
    assert torn["line"] == lines[0][: otlp.MAX_QUARANTINED_CHARS]
    assert torn["file"].endswith("traces.jsonl")
    assert all(row["line"] for row in rows if row["reason"] not in (None, otlp.OTHER_PROGRAM))


def test_a_missing_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The error has its path."""
    with pytest.raises(PipelineError, match=r"nowhere does not exist; expected a file of traces"):
        read_spans(spark, [str(tmp_path / "nowhere")])
