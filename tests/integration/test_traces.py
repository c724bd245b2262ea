"""Traces through a real collector: the spans that `rotel` forwards, attribute by attribute.

The core runs with a clock turned by hand, so that every duration is known to the microsecond. Each kind of span is
tested in `tests/proxy/telemetry/traces`, the proxy as a process in `test_traces_process.py`.
"""

from collections.abc import Callable, Iterator

import pytest

from policies.api import FORWARD, Hold, Policy, QuotaViolation, Request, Throttle, Verdict
from policies.chain import Chain, Entry
from proxy.core.engine import Engine
from proxy.core.session.engine_options import EngineOptions
from proxy.core.topology import Topology
from proxy.telemetry.traces.tracer import Tracer
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire
from tests.support.messages.frames import beat, beat_reply, produce, produce_reply
from tests.support.telemetry.collectors import Collector, Seen, children, exporting, rotel

EPOCH_MS = 1_790_000_000_000
MS = 1_000_000  # nanoseconds
SERVER, CLIENT, INTERNAL, ERROR = 2, 3, 1, 2
EXCESS = QuotaViolation("client-id tests", "request_rate", 12.5, 10.0)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Collector]]:
    """`rotel`, and the collector that it forwards to."""
    yield from rotel(tmp_path_factory.mktemp("rotel"))


class Played:
    """A session of the core whose tracer exports to `rotel`; `spans` are those that arrive after it."""

    def __init__(
        self, tracer: Tracer, collector: Collector, *policies: Policy, **options: int
    ) -> None:
        topology = Topology(
            "127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(4)}, tracer
        )
        topology.learn({2: (b"broker-2.internal", 9092)})
        chain = Chain([Entry(f"p{n}", policy) for n, policy in enumerate(policies)], tracer)
        self.engine = Engine(
            topology, chain, tracer, EngineOptions(keeps_traces=True, **options), now_ms=EPOCH_MS
        )
        tracer.attach(self.engine)
        tracer.start()
        self.wire = Wire(self.engine, 2)
        self._tracer = tracer
        self._collector = collector
        self._before = len(collector.spans)

    def spans(self, count: int) -> list[Seen]:
        """Wait for so many spans, which must be all."""
        self._tracer.close(10)
        assert (self._tracer.delivered, self._tracer.dropped) == (count, 0)
        return self._collector.wait_for(self._before + count)[self._before :]


@pytest.fixture
def play(
    collector: tuple[str, Collector], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Played]:
    """Start a session with these policies."""
    endpoint, behind = collector

    def begin(*policies: Policy, **options: int) -> Played:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_SERVICE_NAME": "sluice-test",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tests",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Played(exporting(), behind, *policies, **options)

    return begin


def once(verdict: Verdict) -> Callable[[Request], Verdict]:
    """Give this verdict the first time a request is judged, and FORWARD afterwards."""
    seen: set[int] = set()

    def judge(request: Request) -> Verdict:
        if request.exchange_id in seen:
            return FORWARD
        seen.add(request.exchange_id)
        return verdict

    return judge


def only(spans: list[Seen], name: str) -> Seen:
    """Return the one span of that name."""
    (found,) = (span for span in spans if span.name == name)
    return found


BASE = {
    "messaging.system": "kafka",
    "messaging.client.id": "tests",
    "client.address": "10.0.0.9",
    "client.port": 40000,
    "user.name": "ANONYMOUS",
    "sluice.principal.source": "none",
    "sluice.principal.proof": "",
    "sluice.session": 1,
    "sluice.node": "2",
}
PRODUCE = BASE | {
    "messaging.operation.name": "Produce",
    "messaging.operation.type": "send",
    "sluice.api.key": 0,
    "sluice.api.version": 3,
}
UPSTREAM = {
    "messaging.system": "kafka",
    "messaging.operation.name": "Produce",
    "sluice.node": "2",
    "server.address": "broker-2.internal",
    "server.port": 9092,
}


def test_a_throttled_produce_has_every_attribute(play: Callable[..., Played]) -> None:
    """It is held for its quota for 250 ms, then 40 ms at the broker."""
    quota = Recorder(once(Hold(250, "bucket", throttles=True, why=EXCESS)))
    played = play(quota)
    wire = played.wire
    wire.client(produce(11, topic="orders", size_bytes=300))
    wire.advance(250)
    wire.advance(40)
    wire.broker(produce_reply(11, "orders"))

    spans = played.spans(3)
    server = only(spans, "Produce orders")
    throttle, upstream = children(spans, server)
    quota_said = {
        "sluice.quota.entity": "client-id tests",
        "sluice.quota.name": "request_rate",
        "sluice.quota.observed": 12.5,
        "sluice.quota.bound": 10.0,
    }
    assert server.attributes == PRODUCE | quota_said | {
        "messaging.destination.name": "orders",
        "sluice.correlation_id": 11,
        "sluice.request.size": len(produce(11, topic="orders", size_bytes=300)) - 4,
        "sluice.reply.size": len(produce_reply(11, "orders")) - 4,
        "sluice.outcome": "replied",
        "sluice.reasons": ("throttled",),
        "sluice.throttle.ms": 250.0,
    }
    assert (server.kind, server.parent_id, server.status, server.links) == (SERVER, "", 0, ())
    assert server.start_ns == EPOCH_MS * MS
    assert server.took_ns == 290 * MS
    assert (throttle.name, throttle.kind, throttle.took_ns) == ("throttle", INTERNAL, 250 * MS)
    assert throttle.attributes == quota_said
    assert (upstream.name, upstream.kind, upstream.took_ns) == ("upstream", CLIENT, 40 * MS)
    assert upstream.attributes == UPSTREAM
    assert upstream.start_ns == throttle.end_ns
    assert {span.trace_id for span in spans} == {server.trace_id}
    assert server.resource == {
        "service.name": "sluice-test",
        "service.version": "1.2.3",
        "deployment.environment.name": "tests",
    }
    assert server.scope == ("sluice", "1.2.3")


def test_a_throttle_longer_than_the_reply_has_a_mute_span(play: Callable[..., Played]) -> None:
    """Of 400 ms, 60 pass while the broker works: a linked root span `mute` has the other 340."""
    played = play(Recorder(once(Throttle(400, why=EXCESS))))
    wire = played.wire
    wire.client(beat(1))
    wire.advance(60)
    wire.broker(beat_reply(1))
    wire.advance(340)

    spans = played.spans(3)
    server, mute = only(spans, "Heartbeat"), only(spans, "mute")
    (upstream,) = children(spans, server)
    assert (server.took_ns, upstream.took_ns, mute.took_ns) == (60 * MS, 60 * MS, 340 * MS)
    assert mute.start_ns == server.end_ns
    assert mute.parent_id == ""
    assert mute.trace_id != server.trace_id
    assert mute.links == ((server.trace_id, server.span_id),)
    assert server.attributes["sluice.throttle_time_ms"] == 340
    assert server.attributes["sluice.reasons"] == ("throttled",)
    assert mute.attributes == {
        "user.name": "ANONYMOUS",
        "messaging.client.id": "tests",
        "sluice.session": 1,
        "sluice.throttle_time_ms": 340,
        "sluice.quota.entity": "client-id tests",
        "sluice.quota.name": "request_rate",
        "sluice.quota.observed": 12.5,
        "sluice.quota.bound": 10.0,
    }
