"""Who listens: the log always, the others as the settings want, and what is off is not even imported."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from policies.api import Peer
from proxy.config import Config
from proxy.config.sections import UpstreamSettings
from proxy.config.telemetry import AdminSettings, AuditSettings, TracesSettings, UsageLogSettings
from proxy.observers import Observers
from proxy.shell.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

UPSTREAM = UpstreamSettings(bootstrap_servers=("127.0.0.1:9092",))


def make(**sections) -> Observers:
    config = Config(upstream=UPSTREAM, **sections)
    return Observers(config, Clock(), lambda *_: None, lambda *_: None)


def test_by_default_only_the_log_listens():
    """No trails are kept, nothing is written."""
    observers = make()
    assert observers.tracer is observers.looking is observers.usage_log is None
    assert not observers.keeps_trails
    observers.start()
    observers.close()


def test_whoever_looks_in_sees_what_happened_to_requests():
    """An admin address is enough: trails are kept for its page."""
    observers = make(admin=AdminSettings(listen="127.0.0.1:1"))
    assert observers.looking is not None
    assert observers.keeps_trails


def test_somebody_may_begin_to_look_in_at_any_time():
    """Once: what is kept for the first is kept for all."""
    observers = make()
    looking = observers.look()
    assert observers.looking is looking is observers.look()
    observers.fan.on_session_opened(Peer(1, "10.0.0.9", 40000))
    assert 1 in looking.arrivals.opened_ms


def test_traces_go_where_the_settings_say(tmp_path: Path):
    """And keep trails without anybody looking in."""
    observers = make(traces=TracesSettings(file=str(tmp_path / "traces.jsonl")))
    assert observers.tracer is not None
    assert observers.keeps_trails
    observers.start()
    observers.close()


def test_an_audit_log_hears_of_acts_and_keeps_trails(tmp_path: Path):
    """Only if its file is set; the core asks the listeners together."""
    assert not make().fan.hears_audit
    observers = make(audit=AuditSettings(file=str(tmp_path / "audit.jsonl")))
    assert observers.audit is not None
    assert observers.fan.hears_audit
    assert observers.keeps_trails
    observers.start()
    observers.close()


def test_records_want_of_the_core_what_their_families_need(tmp_path: Path):
    """A capture and a book of topics only if they are asked for."""
    plain = make(usage_log=UsageLogSettings(directory=str(tmp_path)))
    assert plain.usage_log is not None
    assert plain.capture is plain.topic_book is None
    full = make(usage_log=UsageLogSettings(directory=str(tmp_path), families=("topic", "capture")))
    assert full.capture is not None
    assert full.topic_book is not None


def test_what_is_off_is_not_imported():
    """No web server, no SDK, no writer: a sidecar that nobody looks at does not pay for them."""
    asked = (
        "import sys, proxy.app; "
        "print([name for name in ('starlette', 'hypercorn', 'opentelemetry', 'kafka', 'proxy.admin.server', "
        "'proxy.telemetry.usage_log.usage_log', 'proxy.telemetry.metrics.observer', 'proxy.telemetry.traces.tracer', "
        "'proxy.telemetry.audit', 'importlib.metadata') if name in sys.modules])"
    )
    answered = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True)
    assert answered.stdout.decode().strip() == "[]"
