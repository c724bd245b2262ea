"""Latencies and shares by group, checked against plain Python over the same requests."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.traces import findings
from pipeline.traces.findings import requests_of
from pipeline.traces.otlp import read_spans
from policies.api import Peer
from tests.support.telemetry.request_traces import EPOCH_US, trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces
from wire import apis

HOUR_US = 3_600_000_000
COUNT = 100


@pytest.fixture(scope="module")
def requests(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Per hour and user 100 requests: the nth waits n ms for its quota and 10 ms at the broker, the last in memory."""
    batches = []
    for hour in range(2):
        for user in ("alice", "bob"):
            peer = Peer(7, "10.0.0.9", 40000, node_id=2, client_id="c", user=user)
            for n in range(1, COUNT + 1):
                stages = [("throttle", n * 1000)] if user == "alice" else []
                if n == COUNT:
                    stages.append(("memory", 7_000))
                began_us = EPOCH_US // HOUR_US * HOUR_US + hour * HOUR_US + n
                made = trace(
                    waits(*stages, began_us=began_us),
                    10_000,
                    peer=peer,
                    began_us=began_us,
                    api_key=apis.ApiKey.FETCH,
                    version=12,
                )
                made.sampled = n % 10 == 0
                batches.append(spans_with_mute(made, 50_000 if n == 1 and user == "alice" else 0))
    del batches[-1][-1]  # the last of bob loses its `upstream`
    path = write_traces(tmp_path_factory.mktemp("traces") / "traces.jsonl", *batches)
    found = requests_of(read_spans(spark, [str(path)])).persist()
    assert found.count() == 4 * COUNT
    return found


def test_each_group_has_its_percentiles_and_shares(requests: DataFrame) -> None:
    """Percentiles are durations of requests; shares of the parts add up to the whole, with what is missing."""
    rows = findings.latencies(requests, ["user", "hour"]).toArrow().to_pylist()
    groups = {(row["user"], row["hour"][-5:]): row for row in rows}
    parts = {part["part"]: part for part in groups["alice", "14:00"]["parts"]}

    assert set(groups) == {(user, hour) for user in ("alice", "bob") for hour in ("14:00", "15:00")}
    assert set(parts) == {"total", "throttle", "memory", "upstream", "mute"}
    throttle = parts["throttle"]
    assert [throttle[name] for name in ("requests", "p50_ms", "p90_ms", "p99_ms", "max_ms")] == [
        *(100, 50.0, 90.0, 99.0, 100.0)
    ]
    whole_ms = sum(range(1, COUNT + 1)) + COUNT * 10 + 7
    assert groups["alice", "14:00"]["sum_ms"] == pytest.approx(whole_ms)
    assert throttle["share"] == pytest.approx(5050 / whole_ms)
    assert parts["mute"]["share"] is None
    assert (parts["mute"]["requests"], parts["mute"]["max_ms"]) == (1, 50.0)
    for row in rows:
        shares = [part["share"] for part in row["parts"] if part["part"] != "total"]
        assert sum(share for share in shares if share is not None) == pytest.approx(1)
    lost = next(p for p in groups["bob", "15:00"]["parts"] if p["part"] == "missing")
    assert (lost["requests"], lost["max_ms"]) == (1, 10.0)


def test_the_slowest_come_first_with_where_their_time_went(requests: DataFrame) -> None:
    """The slowest two are alice's last of each hour."""
    first, second = findings.slowest(requests, 2).toArrow().to_pylist()

    assert first["total_ms"] == second["total_ms"] == 117.0
    for row in (first, second):
        assert row["user"] == "alice"
        assert (row["throttle_ms"], row["memory_ms"], row["upstream_ms"]) == (100.0, 7.0, 10.0)
        assert len(row["trace_id"]) == 32


def test_reasons_and_losses_are_counted(requests: DataFrame) -> None:
    """All requests of alice were throttled, one in ten was sampled, and one part is missing."""
    reasons = {row["reason"]: row["requests"] for row in findings.reasons(requests).collect()}
    (losses,) = findings.losses(requests).toArrow().to_pylist()

    assert reasons == {"throttled": 2 * COUNT, "sampled": 40, "out_of_memory": 4}
    assert losses == {
        "requests": 4 * COUNT,
        "sampled": 40,
        "without_server": 0,
        "without_parts": 1,
        "without_mute": 0,
        "duplicates": 0,
    }
    assert findings.sampled(requests).count() == 40


@pytest.mark.parametrize("by", [["planet"], ["user", "user"]])
def test_a_grouping_that_is_none_is_refused(by: list[str]) -> None:
    """The error has the name and those that exist."""
    with pytest.raises(PipelineError, match=f"{by[-1]!r}: expected one or more of user, client_id"):
        findings.check_groupings(by)
