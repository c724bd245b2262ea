"""The job `traces` on the files of a running Sluice, beside the clocks of its clients."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from pipeline.traces.findings import STAGES
from pipeline.traces.otlp import TORN
from pipeline.traces.traces_job import find
from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = pytest.mark.slow

CLOCK_NS = 2_000_000
"""How far two readings of the same clock may lie apart: Sluice's is in microseconds, and read once a step."""
REQUESTS, CONNECTIONS = 12, 3
SLOW_S = 0.05
RATES = {"entity": 10.0, "channel": 2.0}
VARIABLES = {"SLUICE_TRACES_SAMPLE_EVERY_REQUESTS": "1", "OTEL_BSP_SCHEDULE_DELAY": "100"}


class Measured(NamedTuple):
    """A request by its client's clock, in epoch nanoseconds."""

    began_ns: int
    ended_ns: int


@pytest.fixture(scope="module")
def broker() -> Iterator[StubBroker]:
    """Answers every Heartbeat after SLOW_S."""

    def answer(request: bytes) -> bytes | None:
        key, version, ident = struct.unpack_from(">hhi", request, 4)
        if key != f.HEARTBEAT:
            return stub.usual(request)
        time.sleep(SLOW_S)
        return f.beat_reply(ident, version=version)

    with StubBroker(answer) as stub:
        yield stub


def drive(folder: Path, broker: StubBroker, enforcement: str) -> tuple[Path, list[Measured]]:
    """Send three requests at a time through a Sluice with a quota; return its traces and the clients' measures."""
    file = folder / "traces.jsonl"
    quota = {
        "enforcement": enforcement,
        "quotas": [{"client_id": "tests", "request_rate": RATES[enforcement]}],
    }
    quota |= {"burst_seconds": 0.2} if enforcement == "entity" else {"quota_window_num": 2}
    policies = [{"use": "quota", "config": quota}]
    variables = {
        **VARIABLES,
        "SLUICE_TRACES_FILE": str(file),
        "SLUICE_POLICIES": json.dumps(policies),
        "OTEL_SERVICE_NAME": enforcement,
    }
    with (
        SluiceProcess(broker.server, folder, variables=variables) as sluice,
        ExitStack() as stack,
    ):
        clients = [
            stack.enter_context(socket.create_connection((sluice.address, sluice.port), 30))
            for _ in range(CONNECTIONS)
        ]
        measured: list[Measured] = []
        for first in range(0, REQUESTS, CONNECTIONS):
            began_ns = []
            for place, client in enumerate(clients):
                began_ns.append(time.time_ns())
                client.sendall(f.beat(first + place))
            for began, client in zip(began_ns, clients, strict=True):
                (size,) = struct.unpack(">i", receive(client, 4))
                receive(client, size)
                measured.append(Measured(began, time.time_ns()))
        time.sleep(1.1)  # the last throttle ends
    return file, measured


def traces_in(file: Path) -> dict[str, dict[str, int]]:
    """Return what a file says of each trace id: of its SERVER span, and the durations of its parts."""
    found: dict[str, dict[str, int]] = {}
    for line in file.read_text().rpartition("\n")[0].splitlines():  # the last may be cut
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            start_ns = int(span["startTimeUnixNano"])
            took_ns = int(span["endTimeUnixNano"]) - start_ns
            of = span["links"][0]["traceId"] if span["name"] == "mute" else span["traceId"]
            parts = found.setdefault(of, {})
            if span["kind"] == 2:
                numbers = {
                    pair["key"]: pair["value"].get("intValue") for pair in span["attributes"]
                }
                parts |= {"start_ns": start_ns, "took_ns": took_ns}
                parts["number"] = int(numbers["sluice.correlation_id"])
            else:
                parts[f"{span['name']}_ns"] = parts.get(f"{span['name']}_ns", 0) + took_ns
    return found


def test_durations_are_those_of_the_file_and_lie_inside_the_clients(
    spark: SparkSession, broker: StubBroker, tmp_path: Path
) -> None:
    """Under both enforcements each duration is the file's to the nanosecond and at most what its client measured.

    Held requests wait in `throttle`, muted ones in `mute`.
    """
    driven = {name: drive(tmp_path / name, broker, name) for name in RATES}
    files = [str(file) for file, _ in driven.values()]
    out = f"{tmp_path}/out"
    found = find(spark, files, by=["service", "user", "api"], slowest=3, groups=10, output=out)
    rows = spark.read.parquet(f"{out}/requests").orderBy("start_ns").toArrow().to_pylist()

    assert found.requests == 2 * REQUESTS
    assert found.unread == []
    assert {name: found.losses[name] for name in ("without_parts", "duplicates")} == {
        "without_parts": 0,
        "duplicates": 0,
    }
    for name, (file, measured) in driven.items():
        told = traces_in(file)
        of = [row for row in rows if row["service"] == name]
        assert {row["trace_id"] for row in of} == told.keys()
        for row in of:
            check(row, told[row["trace_id"]], measured[told[row["trace_id"]]["number"]])
    parts = {group["service"]: {p["part"] for p in group["parts"]} for group in found.groups}
    assert "throttle" in parts["entity"]
    assert "mute" in parts["channel"]
    assert found.slowest[0]["total_ms"] == max(row["took_ns"] for row in rows) / 1e6


def test_a_file_that_grows_while_it_is_read_loses_no_request(
    spark: SparkSession, broker: StubBroker, tmp_path: Path
) -> None:
    """Requests that were in the file before are all found, later ones at most as many as there are; a line that was cut
    is named. Once the file is at rest, all of it is found.
    """
    file, ends = tmp_path / "traces.jsonl", Event()
    variables = {**VARIABLES, "SLUICE_TRACES_FILE": str(file)}

    def send(port: tuple[str, int]) -> None:
        with socket.create_connection(port, 30) as client:
            for number in count():
                client.sendall(f.beat(number))
                (size,) = struct.unpack(">i", receive(client, 4))
                receive(client, size)
                if ends.is_set():
                    return

    with SluiceProcess(broker.server, tmp_path, variables=variables) as sluice:
        sender = Thread(target=send, args=((sluice.address, sluice.port),))
        sender.start()
        try:
            while not (file.exists() and len(traces_in(file)) > 5):
                assert sender.is_alive()
            before = len(traces_in(file))
            found = find(spark, [str(file)], by=["user"], slowest=1, groups=1)
            after = len(traces_in(file))
        finally:
            ends.set()
            sender.join()
    assert before <= found.requests <= after
    assert before < after
    assert [row["reason"] for row in found.unread] in ([], [TORN])
    assert sum(row["count"] for row in found.unread) <= 1
    assert found.losses["duplicates"] == found.losses["without_parts"] == 0
    at_rest = find(spark, [str(file)], by=["user"], slowest=1, groups=1)
    assert (at_rest.requests, at_rest.unread) == (len(traces_in(file)), [])
    assert at_rest.requests >= after


def check(row: dict[str, Any], told: dict[str, int], client: Measured) -> None:
    """Check a request's row against the file and against its client."""
    for part in ("start", "took", *STAGES, "mute"):
        assert row[f"{part}_ns"] == told.get(f"{part}_ns", 0)
    assert sum(row[f"{stage}_ns"] for stage in STAGES) == row["took_ns"]
    assert row["upstream_ns"] >= SLOW_S * 1e9 - CLOCK_NS
    assert client.began_ns - CLOCK_NS <= row["start_ns"]
    assert row["start_ns"] + row["took_ns"] <= client.ended_ns + CLOCK_NS
