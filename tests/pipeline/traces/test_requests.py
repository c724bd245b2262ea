"""One row per request: durations to the nanosecond, and parts that are missing."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from pipeline.traces.findings import STAGES, requests_of
from pipeline.traces.otlp import read_spans
from proxy.telemetry.traces.spans import Span
from tests.support.telemetry.request_traces import trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces

KINDS = ("receive", "memory", "throttle", "purgatory")


def requests(
    spark: SparkSession, path: Path, *batches: Sequence[Span]
) -> dict[str, dict[str, Any]]:
    """Return the rows by trace id."""
    rows = requests_of(read_spans(spark, [str(write_traces(path, *batches))]))
    return {row["trace_id"]: row for row in rows.toArrow().to_pylist()}


def drawn_spans(draw: Random) -> list[Span]:
    """Return a request with waits of any order and length, muted afterwards or not."""
    lengths_us = [draw.choice((0, 1, draw.randrange(10**12))) for _ in range(draw.randrange(6))]
    stages = waits(*((draw.choice(KINDS), length_us) for length_us in lengths_us))
    return spans_with_mute(trace(stages, draw.randrange(10**9)), draw.choice((0, 1, 10**9)))


def test_every_duration_is_that_of_the_spans(spark: SparkSession, tmp_path: Path) -> None:
    """Forty drawn requests: each part is the sum of its spans exactly, and the parts are the whole."""
    drawn = [drawn_spans(Random(seed)) for seed in range(40)]
    found = requests(spark, tmp_path / "traces.jsonl", *drawn)

    assert len(found) == 40
    for spans in drawn:
        row = found[f"{spans[0].trace_id:032x}"]
        assert row["took_ns"] == spans[0].end_ns - spans[0].start_ns
        assert row["start_ns"] == spans[0].start_ns
        for part in (*STAGES, "mute"):
            took = sum(span.end_ns - span.start_ns for span in spans[1:] if span.name == part)
            assert row[f"{part}_ns"] == took
        assert sum(row[f"{stage}_ns"] for stage in STAGES) == row["took_ns"]
        assert (row["missing_ns"], row["duplicates"], row["has_server"]) == (0, 0, True)
        assert row["has_mute"] == any(span.name == "mute" for span in spans)


def test_missing_spans_and_those_that_occur_twice_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A request without its `upstream`, one without its SERVER span, and one that was exported twice."""
    cut, headless, twice = (
        spans_with_mute(trace(waits(("throttle", 2_000)), quiet_ms=1), mute_us=1_000)
        for _ in range(3)
    )
    del cut[2]
    found = requests(spark, tmp_path / "t", cut, headless[1:], twice, twice)
    by = {
        name: found[f"{spans[0].trace_id:032x}"]
        for name, spans in {"cut": cut, "headless": headless, "twice": twice}.items()
    }

    assert by["cut"]["missing_ns"] == by["cut"]["took_ns"] - 2_000_000 == 5_000_000
    assert not by["headless"]["has_server"]
    assert by["headless"]["took_ns"] is None
    assert by["headless"]["mute_ns"] == 1_000_000
    assert by["twice"]["duplicates"] == len(twice)
    assert (by["twice"]["throttle_ns"], by["twice"]["missing_ns"]) == (2_000_000, 0)
