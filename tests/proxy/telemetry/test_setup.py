"""The observers of a configuration: the log always, the others when configured, and imported only then."""

import subprocess
import sys
from pathlib import Path

from policies.api import Peer
from proxy.config import Config
from proxy.config.telemetry import AdminSettings, AuditSettings, TracesSettings, UsageLogSettings
from proxy.config.upstream import UpstreamSettings
from proxy.shell.clock import Clock
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


def test_an_admin_server_needs_monitoring():
    """With an admin address, monitoring runs and request traces are kept."""
    telemetry = make(admin=AdminSettings(listen="127.0.0.1:1"))
    assert telemetry.monitoring is not None
    assert telemetry.keeps_traces


def test_monitoring_may_start_later():
    """`monitor` starts the monitoring once and returns the same object afterwards."""
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
    assert not make().broadcast.hears_audit
    telemetry = make(audit=AuditSettings(file=str(tmp_path / "audit.jsonl")))
    assert telemetry.audit is not None
    assert telemetry.broadcast.hears_audit
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
