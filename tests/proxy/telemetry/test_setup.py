"""The observers of a configuration: the log always, the others when configured and imported only then; a broadcast."""

import subprocess
import sys
from pathlib import Path

from policies.api import Peer
from proxy.config import Config
from proxy.config.telemetry import AdminSettings, AuditSettings, TracesSettings, UsageLogSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.shell.clock import Clock
from proxy.telemetry.broadcast import Broadcast
from proxy.telemetry.client_activity import ConnectionTimes
from proxy.telemetry.setup import Telemetry

UPSTREAM = UpstreamSettings(bootstrap_servers=("127.0.0.1:9092",))


def make(**sections) -> Telemetry:
    config = Config(upstream=UPSTREAM, **sections)
    return Telemetry(config, Clock(), lambda *_: None, lambda *_: None, lambda: "token")


def test_by_default_only_the_log_observes():
    """The default configuration keeps no request traces and writes no files."""
    telemetry = make()
    assert telemetry.tracer is telemetry.monitoring is telemetry.usage_log is None
    assert not telemetry.keeps_traces
    telemetry.start()
    telemetry.close()


def test_monitoring_runs_for_an_admin_server_or_may_start_later():
    """Request traces are kept then; `monitor` returns the same object afterwards."""
    telemetry = make(admin=AdminSettings(listen="127.0.0.1:1"))
    assert telemetry.monitoring is not None
    assert telemetry.keeps_traces

    telemetry = make()
    monitoring = telemetry.monitor()
    assert telemetry.monitoring is monitoring is telemetry.monitor()
    telemetry.broadcast.on_session_opened(Peer(1, "10.0.0.9", 40000))
    assert 1 in monitoring.connection_times.opened_ms


def test_a_trace_file_needs_a_tracer(tmp_path: Path):
    """With a trace file, a tracer runs and request traces are kept."""
    telemetry = make(traces=TracesSettings(file=str(tmp_path / "traces.jsonl")))
    assert telemetry.tracer is not None
    assert telemetry.keeps_traces
    telemetry.start()
    telemetry.close()


def test_an_audit_log_observes_administrative_requests(tmp_path: Path):
    """The core reports administrative requests only if the audit log has a file."""
    assert not make().broadcast.receives_audit
    telemetry = make(audit=AuditSettings(file=str(tmp_path / "audit.jsonl")))
    assert telemetry.audit is not None
    assert telemetry.broadcast.receives_audit
    assert telemetry.keeps_traces
    telemetry.start()
    telemetry.close()


def test_the_families_of_the_usage_log_decide_what_the_core_keeps(tmp_path: Path):
    """The core keeps a capture and a topic book only for the families `capture` and `topic`."""
    plain = make(usage_log=UsageLogSettings(directory=str(tmp_path)))
    assert plain.usage_log is not None
    assert plain.capture is plain.topic_usage is None
    full = make(usage_log=UsageLogSettings(directory=str(tmp_path), families=("topic", "capture")))
    assert full.capture is not None
    assert full.topic_usage is not None


def test_a_part_that_is_off_is_not_imported():
    """Importing the application imports no web server, no SDK and no observer that is off by default."""
    asked = (
        "import sys, proxy.app; "
        "print([name for name in ('starlette', 'hypercorn', 'opentelemetry', 'kafka', 'proxy.admin.server', "
        "'proxy.telemetry.usage_log.usage_log', 'proxy.telemetry.metrics.metrics_observer', "
        "'proxy.telemetry.traces.tracer', "
        "'proxy.telemetry.audit_log', 'importlib.metadata') if name in sys.modules])"
    )
    answered = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True)
    assert answered.stdout.decode().strip() == "[]"


PEER = Peer(1, "10.0.0.9", 40000)


class Ear(Observer):
    def __init__(self, book: list[str], name: str) -> None:
        self.book = book
        self.name = name

    def on_session_opened(self, peer: Peer) -> None:
        self.book.append(self.name)

    def on_internal_error(self, error: BaseException) -> None:
        self.book.append(f"{self.name}: {error}")


class Deaf(Ear):
    def on_session_opened(self, peer: Peer) -> None:
        raise RuntimeError("a bug")


def test_an_observer_that_is_added_later_is_called_from_then_on():
    """This holds for references to a hook that were taken before."""
    book: list[str] = []
    fan = Broadcast([Ear(book, "first")])
    tell = fan.on_session_opened
    tell(PEER)
    fan.add([Ear(book, "late")])
    tell(PEER)
    assert book == ["first", "first", "late"]


def test_an_observer_that_raises_is_reported_and_stops_no_other():
    """The first observer writes the log; the last one is still called."""
    book: list[str] = []
    Broadcast([Ear(book, "log"), Deaf(book, "deaf"), Ear(book, "last")]).on_session_opened(PEER)
    assert book == ["log", "log: a bug", "last"]


def test_a_hook_that_no_observer_overrides_does_nothing():
    """No observer is called, and no error is reported."""
    book: list[str] = []
    Broadcast([Ear(book, "only")]).on_unmapped_node(99)
    assert book == []


def test_a_closed_connection_is_forgotten() -> None:
    """Its time is known from open to close; an unknown connection has none."""
    times = ConnectionTimes(lambda: 5)
    times.on_session_opened(Peer(7, "h", 1))
    assert times.opened_ms == {7: 5}
    times.on_session_closed(Peer(7, "h", 1), CloseReason.DRAINED, "")
    times.on_session_closed(Peer(8, "h", 1), CloseReason.DRAINED, "")
    assert times.opened_ms == {}
