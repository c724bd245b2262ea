"""Traces of the proxy as a process: the collector's spans against the clients' own clocks."""

import json
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.long_polls import unread_bytes
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.telemetry.collectors import BlackHole, Collector, Seen, children, refusing, rotel

MS = 1_000_000  # nanoseconds
SERVER = 2
CLOCK_NS = 2 * MS
"""How far two readings of the same clock may lie apart: Sluice's is in microseconds, and read once a step."""
HANG_NS = 60_000 * MS  # a request that waits for a collector waits longer than any machine makes it
"""The time of a reply on a busy machine; one that waited for an export would take longer."""
EVERY = {"SLUICE_TRACES_SAMPLE_EVERY_REQUESTS": "1", "OTEL_BSP_SCHEDULE_DELAY": "100"}
RATE = 5.0
SLOW_S, FETCH_WAIT_MS = 0.3, 200


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Collector]]:
    """`rotel`, and the collector that it forwards to."""
    yield from rotel(tmp_path_factory.mktemp("rotel"))


@pytest.fixture(scope="module")
def broker() -> Iterator[StubBroker]:
    """Answers a Heartbeat at once, a FindCoordinator after SLOW_S, and a Fetch never."""

    def answer(request: bytes) -> bytes | None:
        key, version, ident = struct.unpack_from(">hhi", request, 4)
        if key == f.HEARTBEAT:
            return f.beat_reply(ident, version=version)
        if key == f.FETCH:
            return None
        if key == f.LIST_OFFSETS:
            time.sleep(SLOW_S)
        return stub.usual(request)

    stub = StubBroker(answer)
    with stub:
        yield stub


class Timed(NamedTuple):
    """A request as its client measured it; epoch nanoseconds."""

    correlation_id: int
    began_ns: int
    ended_ns: int
    sent_bytes: int
    reply: bytes


class Client:
    """One connection with one request at a time."""

    def __init__(self, sluice: SluiceProcess) -> None:
        self._socket = socket.create_connection((sluice.address, sluice.port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = self._socket.getsockname()

    def ask(self, frame: bytes, *, pause_s: float = 0.0) -> Timed:
        """Send it (half of it, a pause after Sluice has read it, the rest) and wait for the reply."""
        (correlation_id,) = struct.unpack_from(">i", frame, 8)
        began_ns = time.time_ns()
        if pause_s:
            self._socket.sendall(frame[:20])
            while unread_bytes(self._socket.getpeername()[1]):
                time.sleep(0.01)
            time.sleep(pause_s)
            self._socket.sendall(frame[20:])
        else:
            self._socket.sendall(frame)
        (size,) = struct.unpack(">i", receive(self._socket, 4))
        reply = receive(self._socket, size)
        assert reply[:4] == frame[8:12]
        return Timed(correlation_id, began_ns, time.time_ns(), len(frame) - 4, reply)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def running(
    directory: Path, upstream: str, variables: Mapping[str, str], *policies: Mapping[str, Any]
) -> Iterator[SluiceProcess]:
    """A Sluice with these variables and policies."""
    with SluiceProcess(
        upstream,
        directory,
        variables={**variables, "SLUICE_POLICIES": json.dumps(policies)},  # JSON is YAML
    ) as sluice:
        yield sluice


def to(endpoint: str) -> dict[str, str]:
    """Return the environment that sends all traces there, soon."""
    return {**EVERY, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}


def servers(spans: list[Seen]) -> dict[int, Seen]:
    """Return the SERVER spans by correlation id."""
    return {span.attributes["sluice.correlation_id"]: span for span in spans if span.kind == SERVER}


def check_agrees(span: Seen, timed: Timed, spans: list[Seen]) -> None:
    """Check that the SERVER span lies inside the client's measure, and that its children add up to it."""
    assert timed.began_ns - CLOCK_NS <= span.start_ns
    assert span.end_ns <= timed.ended_ns + CLOCK_NS
    assert abs(sum(child.took_ns for child in children(spans, span)) - span.took_ns) <= MS
    assert span.attributes["sluice.request.size"] == timed.sent_bytes
    assert span.attributes["sluice.reply.size"] == len(timed.reply)


def quiet_ms(timed: Timed) -> int:
    """Return the throttle time in a reply to a Heartbeat v1."""
    (throttle_time_ms,) = struct.unpack_from(">i", timed.reply, 4)
    return throttle_time_ms


def test_a_quotas_spans_agree_with_its_clients(
    tmp_path: Path, broker: StubBroker, collector: tuple[str, Collector]
) -> None:
    """Five a second for five well-behaved connections at once: each span is the client's
    measure, and a held request has a `throttle` child with the quota's name, rate and bound.
    """
    endpoint, behind = collector
    quota = {
        "use": "quota",
        "config": {"burst_seconds": 0.4, "quotas": [{"client_id": "tests", "request_rate": RATE}]},
    }

    def ask(client: Client, numbers: range) -> list[Timed]:
        asked = []
        for number in numbers:
            asked.append(client.ask(f.beat(number)))
            time.sleep(quiet_ms(asked[-1]) / 1000)
        return asked

    before = len(behind.spans)
    with running(tmp_path, broker.server, to(endpoint), quota) as sluice:
        clients = [Client(sluice) for _ in range(5)]
        with ThreadPoolExecutor(5) as pool:
            shares = [range(place * 3, place * 3 + 3) for place in range(5)]
            asked = [timed for each in pool.map(ask, clients, shares) for timed in each]
        for client in clients:
            client.close()
    ports = [client.address[1] for client in clients]
    told = servers(behind.wait_for(before + 30)[before:])
    spans = behind.spans[before:]

    assert told.keys() == set(range(15))
    throttled = 0
    for timed in asked:
        span = told[timed.correlation_id]
        check_agrees(span, timed, spans)
        assert span.name == "Heartbeat"
        assert span.attributes["client.address"] == "127.0.0.1"
        assert span.attributes["client.port"] == ports[timed.correlation_id // 3]
        assert span.attributes["messaging.client.id"] == "tests"
        assert span.attributes["sluice.node"] == "bootstrap"
        waits = [child for child in children(spans, span) if child.name == "throttle"]
        if waits or quiet_ms(
            timed
        ):  # a throttle that ended before its reply leaves no time to tell
            assert "throttled" in span.attributes["sluice.reasons"]
        assert sum(wait.took_ns for wait in waits) / MS == span.attributes.get(
            "sluice.throttle.ms", 0
        )
        for throttle in waits:
            throttled += 1
            assert throttle.attributes["sluice.quota.name"] == "request_rate"
            assert throttle.attributes["sluice.quota.bound"] == RATE
            assert throttle.attributes["sluice.quota.observed"] > 0
            assert "tests" in throttle.attributes["sluice.quota.entity"]
    assert throttled >= 5  # of the first five at most three may pass at once


def test_failures_of_every_kind_have_traces(
    tmp_path: Path, broker: StubBroker, collector: tuple[str, Collector]
) -> None:
    """Slow, refused, expired and partial requests have traces with the reason, and no others have."""
    endpoint, behind = collector
    limits = {"use": "limits", "config": {"forbidden_apis": ["DeleteTopics"]}}
    variables = {
        "SLUICE_TRACES_SLOW_MS": "150",
        "SLUICE_PURGATORY_FETCH_GRACE_MS": "0",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
    }
    list_offsets = f.request(f.LIST_OFFSETS, 1, 2, struct.pack(">ii", -1, 0))
    one_topic = struct.pack(">i", 1) + f.string("t") + struct.pack(">i", 1)
    fetch_head = struct.pack(">iiii", -1, FETCH_WAIT_MS, 1, 1 << 20)
    fetch = f.request(f.FETCH, 4, 5, fetch_head + b"\0" + struct.pack(">i", 0))
    before = len(behind.spans)
    with running(tmp_path, broker.server, variables, limits) as sluice:
        client = Client(sluice)
        client.ask(f.request(f.DELETE_TOPICS, 1, 9, one_topic))  # the first one loads the codec
        slow = client.ask(list_offsets)
        refused = client.ask(f.request(f.DELETE_TOPICS, 1, 3, one_topic))
        pieces = client.ask(f.beat(4), pause_s=0.25)
        expired = client.ask(fetch)
        client.close()
    spans = behind.wait_for(before + 9)[before:]
    told = servers(spans)

    assert told.keys() == {9, 2, 3, 4, 5}
    for timed in (slow, refused, pieces, expired):
        check_agrees(told[timed.correlation_id], timed, spans)
    reasons = {number: span.attributes["sluice.reasons"] for number, span in told.items()}
    for number, reason in ((2, "slow"), (3, "refused"), (5, "expired")):
        assert reason in reasons[number]  # on a busy machine the others may be slow, too
    assert told[2].took_ns >= SLOW_S * 1000 * MS
    assert told[3].attributes["error.type"] == "POLICY_VIOLATION"
    assert told[5].attributes["error.type"] == "expired"
    assert [child.name for child in children(spans, told[3])] == []
    receive_, upstream = children(spans, told[4])
    assert (receive_.name, upstream.name) == ("receive", "upstream")
    assert receive_.took_ns >= 250 * MS - CLOCK_NS


@pytest.mark.parametrize("kind", ["refusing", "black hole"])
def test_a_collector_that_is_down_delays_no_client(
    tmp_path: Path, broker: StubBroker, kind: str
) -> None:
    """Every request is traced and no span can be delivered: neither replies nor the shutdown are slower."""
    with BlackHole() as hole:
        variables = EVERY | (refusing() if kind == "refusing" else hole.variables)
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter2"}
        with running(tmp_path, broker.server, variables | headers) as sluice:
            client = Client(sluice)
            client.ask(f.beat(0))
            ends = time.monotonic() + 2.5
            took_ns = []
            while time.monotonic() < ends:
                timed = client.ask(f.beat(len(took_ns)))
                took_ns.append(timed.ended_ns - timed.began_ns)
            client.close()
            assert max(took_ns) < HANG_NS
            began = time.monotonic()
            sluice.terminate()
            sluice.await_exit()
            took_s = time.monotonic() - began
    assert took_s < 60.0  # two for the collector; without that bound it would wait for ever
    assert "hunter2" not in sluice.said()
    if kind == "refusing":
        assert sluice.said().count("traces_not_exported") <= 1


def test_a_trace_file_is_accepted_by_a_collector(
    tmp_path: Path, broker: StubBroker, collector: tuple[str, Collector]
) -> None:
    """Each line of the file, posted as it is, gives the spans of the requests."""
    endpoint, behind = collector
    file = tmp_path / "traces.jsonl"
    before = len(behind.spans)
    with running(tmp_path, broker.server, {**EVERY, "SLUICE_TRACES_FILE": str(file)}) as sluice:
        client = Client(sluice)
        asked = [client.ask(f.beat(number)) for number in range(1, 21)]
        client.close()
    lines = file.read_bytes().splitlines()
    for line in lines:
        sent = requests.post(
            f"{endpoint}/v1/traces", line, headers={"Content-Type": "application/json"}, timeout=10
        )
        assert sent.status_code == 200
    spans = behind.wait_for(before + 40)[before:]
    told = servers(spans)

    assert told.keys() == set(range(1, 21))
    for timed in asked:
        check_agrees(told[timed.correlation_id], timed, spans)
        assert told[timed.correlation_id].resource["service.name"] == "sluice"
