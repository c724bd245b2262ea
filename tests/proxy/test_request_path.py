"""On the request path no log line, SDK, exporter, encoder or file runs.

All observers are installed, as in a running proxy. The interpreter's profiler watches for forbidden calls, and they
raise on this thread. (Other threads may make them.)
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import Span, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from policies.api import FORWARD, Hold, QuotaViolation, Reject, Throttle
from proxy.telemetry import log
from proxy.telemetry.line_limits import LIMITS, LineLimits
from proxy.telemetry.metrics.otlp_metrics import OtlpMetricExporter
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.otlp_exporter import OtlpSpanExporter
from proxy.telemetry.usage_log.retention import SegmentWriter
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.messages.waiting import FETCH_MS, empty, fetch_waiting
from tests.support.shell.sockets import Bench, receive
from tests.support.telemetry.telemetry import Listeners, watching
from wire.errors import ErrorCode

FOREIGN = {
    *(
        "structlog",
        "logging",
        "opentelemetry",
        "requests",
        "urllib3",
        "http",
        "google",
        "socketserver",
    ),
    *("json", "msgspec", "rich", "prometheus_client", "starlette", "hypercorn", "kafka", "trio"),
}
"""Packages that must not run on the request path."""
SLOW = {"io", "_io", "posix", "json", "_json", "msgspec", "time"}
"""C modules whose functions block, encode or make system calls."""
WHY = QuotaViolation("user=ada", "request_rate", 120.0, 100.0)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make logging, SDK and exporters raise on this thread."""
    loop = threading.current_thread()

    def breaks(owner: type, name: str) -> None:
        whole = getattr(owner, name)

        def call(*args: object, **options: object) -> object:
            assert threading.current_thread() is not loop, f"{owner.__name__}.{name} on the loop"
            return whole(*args, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, names in {
        structlog.WriteLogger: ("msg", "debug", "info", "warning", "error"),
        structlog.PrintLogger: ("msg", "debug", "info", "warning", "error"),
        structlog.BoundLoggerBase: ("bind", "_proxy_to_logger", "_process_event"),
        Tracer: ("start_span",),
        Span: ("__init__", "end", "set_attribute"),
        BatchSpanProcessor: ("on_start", "on_end"),
        PeriodicExportingMetricReader: ("collect",),
        OtlpMetricExporter: ("export",),
        OtlpSpanExporter: ("send",),
        FileSpanExporter: ("send",),
        SegmentWriter: ("write", "tick"),
    }.items():
        for name in names:
            breaks(owner, name)


@pytest.fixture
def listeners(tmp_path: Path, broken: None) -> Iterator[Listeners]:
    """Return all observers, and a policy whose verdict depends on a request's correlation id."""
    verdicts = {
        3: Throttle(100, why=WHY),
        4: Hold(500, "key", throttles=True, why=WHY),
        5: Hold(500, "key"),
        6: Reject(ErrorCode.POLICY_VIOLATION),
        8: Reject(ErrorCode.POLICY_VIOLATION),
    }
    policy = Recorder(
        lambda request: verdicts.pop(request.correlation_id, FORWARD), response_apis=()
    )
    made = Listeners([policy], tmp_path, slow_ms=50)
    made.start()
    yield made
    made.close()
    assert made.watcher.internal == []


def ordinary(wire: Wire) -> None:
    """Send requests of several kinds, whole and in pieces, and their replies."""
    wire.client(f.heartbeat(20) + f.produce(21) + fetch_waiting(22) + f.produce(23, acks=0))
    wire.broker(f.heartbeat_reply(20) + f.produce_reply(21) + empty(22))
    wire.client(f.heartbeat(24, pad=500), chunk=100).broker(f.heartbeat_reply(24), chunk=3)
    brokers = [(0, "kafka-0", 9092), (1, "kafka-1", 9092)]
    wire.client(f.metadata_request(25)).broker(f.metadata_reply(25, brokers))


def assert_ours(ran, *, may: frozenset[str] = frozenset()) -> None:
    assert ran.packages() & FOREIGN == set()
    slow = {name for name in ran.builtins - may if name.partition(".")[0] in SLOW}
    assert {name for name in slow if not name.startswith("_io.BytesIO.")} == set()
    assert any(module.startswith("proxy.core.") for module in ran.modules)


def test_the_profiler_sees_forbidden_calls() -> None:
    """A log line, an encoder and a file are each found."""
    import json  # noqa: PLC0415 - here it is what is looked for

    logger = structlog.wrap_logger(structlog.ReturnLogger())
    with watching() as ran:
        logger.info("seen")
        json.dumps({"a": 1})
        with open("/dev/null", "w", encoding="ascii") as file:  # noqa: PTH123 - the builtin itself
            file.write("x")

    assert {"structlog", "json"} <= ran.packages()
    assert {"io.open", "_io.TextIOWrapper.write"} <= ran.builtins


def test_a_log_line_on_the_event_loops_thread_raises(broken: None) -> None:
    """A log line on another thread does not raise."""
    logger = structlog.wrap_logger(structlog.PrintLogger())
    with pytest.raises(AssertionError, match="on the loop"):
        logger.info("caught")
    caught: list[BaseException] = []

    def log() -> None:
        try:
            logger.info("free")
        except AssertionError as error:
            caught.append(error)

    thread = threading.Thread(target=log)
    thread.start()
    thread.join()
    assert caught == []


def test_an_ordinary_request_calls_no_observer(listeners: Listeners) -> None:
    """It is forwarded and answered without a call into telemetry."""
    wire = Wire(listeners.engine)
    ordinary(wire)  # fills the caches of brokers and plans
    with watching() as ran:
        ordinary(wire)

    assert_ours(ran)
    assert {module for module in ran.modules if module.startswith("proxy.telemetry")} == set()
    assert not wire.session.queue
    assert sum(meter.replied for meter in listeners.engine.meters.by_api()) == 10


def test_a_notable_request_is_only_handed_to_the_observers(listeners: Listeners) -> None:
    """Throttled, held, refused, slow and expired requests are reported, and nothing is encoded on the event loop."""
    wire = Wire(listeners.engine)
    ordinary(wire)
    with watching() as ran:
        wire.client(f.beat(3)).broker(f.beat_reply(3))
        wire.advance(200)
        wire.client(f.heartbeat(4))
        wire.wake("key")
        wire.broker(f.heartbeat_reply(4))
        wire.client(f.heartbeat(5))
        wire.advance(60)
        wire.wake("key")
        wire.broker(f.heartbeat_reply(5))
        wire.client(f.heartbeat(7))
        wire.advance(60)
        wire.broker(f.heartbeat_reply(7))

    assert_ours(ran)
    assert {
        "proxy.telemetry.traces.tracer",
        "proxy.telemetry.metrics.metrics_observer",
    } <= ran.modules
    told = {decision.what for decision in listeners.decisions.latest(9)}
    assert told == {"throttled", "held", "slow"}


def test_a_refused_request_is_only_handed_to_the_observers(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codec makes the error reply; the log only checks its line limit, which is used up for this second."""
    limits = LineLimits(lambda: 1)
    monkeypatch.setattr(log._threshold, "limits", limits)
    (entry,) = listeners.engine.chain.entries
    for _ in range(LIMITS["policy_refused"].lines):
        limits.pass_one("policy_refused", {"policy": entry.name})
    wire = Wire(listeners.engine)
    wire.client(f.heartbeat(6))  # the first loads the codec and this reply's schema
    with watching() as ran:
        wire.client(f.heartbeat(8))

    assert_ours(ran)
    assert [decision.what for decision in listeners.decisions.latest(9)] == ["refused"] * 2


def test_the_rows_of_a_second_are_only_handed_to_the_observers(listeners: Listeners) -> None:
    """They go to the counters and to the writer's thread; the event loop opens no file and encodes nothing."""
    wire = Wire(listeners.engine)
    for _ in range(2):
        ordinary(wire)
        wire.advance(FETCH_MS)
    ordinary(wire)
    with watching() as ran:
        wire.advance(1000)

    clocks = {"time.time", "time.monotonic", "time.process_time", "time.thread_time"}
    assert_ours(ran, may=frozenset(clocks))
    assert "proxy.telemetry.usage_log.usage_log" in ran.modules
    listeners.close()
    assert listeners.usage_log is not None
    assert listeners.usage_log.dropped == 0


def test_through_real_sockets_no_observer_is_called(listeners: Listeners) -> None:
    """The step of the event loop polls, receives and sends, and does no more."""
    bench = Bench(listeners.engine)
    try:
        client, broker, _ = bench.link()
        for n in (20, 21):  # the first fills the caches
            with watching() as ran:
                client.sendall(f.heartbeat(n))
                bench.run()
                broker.sendall(receive(broker, len(f.heartbeat(n))) and f.heartbeat_reply(n))
                bench.run()
            assert receive(client, len(f.heartbeat_reply(n))) == f.heartbeat_reply(n)
        assert listeners.watcher.internal == []
    finally:
        bench.close()  # the closing is logged, as it should be
        listeners.watcher.internal.clear()

    assert_ours(ran)
    assert "proxy.shell.event_loop" in ran.modules
