"""The job as a whole: its findings, its tables, and files without any request."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.traces.traces_job import SAMPLE, find
from tests.support.telemetry.request_traces import trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces

BY = ["user", "api", "hour"]


def test_the_findings_and_the_tables_agree(spark: SparkSession, tmp_path: Path) -> None:
    """Groups, losses and what could not be read are found in one pass, and written as Parquet."""
    made = [
        spans_with_mute(trace(waits(("throttle", 1_000 * n)), quiet_ms=2), 2_000) for n in (1, 2)
    ]
    path = write_traces(tmp_path / "traces.jsonl", *made)
    with path.open("a") as file:
        file.write('{"resourceSpans": [{"sc\n')
    found = find(spark, [str(path)], by=BY, slowest=1, groups=5, output=f"{tmp_path}/out/")
    requests, groups, quarantine = (
        spark.read.parquet(f"{tmp_path}/out/{name}").toArrow().to_pylist()
        for name in ("requests", "groups", "quarantine")
    )

    assert (found.requests, found.group_count, found.reasons) == (2, 1, {"throttled": 2})
    assert found.sampled is None
    assert "not of all requests" in found.sample == SAMPLE
    assert [part["part"] for part in found.overall["parts"]] == [
        *("total", "throttle", "upstream", "mute")
    ]
    assert found.groups[0]["user"] == "alice"
    assert [row["trace_id"] for row in found.slowest] == [f"{made[1][0].trace_id:032x}"]
    assert found.losses == dict.fromkeys(
        ("without_server", "without_parts", "without_mute", "duplicates"), 0
    )
    assert [row["count"] for row in found.unread] == [1]
    assert sorted(row["throttle_ns"] for row in requests) == [1_000_000, 2_000_000]
    assert [group["requests"] for group in groups] == [2]
    assert [(row["family"], row["line"]) for row in quarantine] == [
        ("traces", '{"resourceSpans": [{"sc')
    ]


def test_files_without_a_request_are_refused_with_what_is_in_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The error counts what was found and says what is expected."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "started"}\nbye\n')
    write_traces(path, spans_with_mute(trace()), scope="io.other")

    with pytest.raises(PipelineError) as caught:
        find(spark, [str(path)], by=BY, slowest=1, groups=5)
    assert "2 x a span of another program" in str(caught.value)
    assert "1 x no resourceSpans" in str(caught.value)
    assert "1 x not one JSON object in a line" in str(caught.value)
    assert "expected OTLP/JSON, one export a line" in str(caught.value)
