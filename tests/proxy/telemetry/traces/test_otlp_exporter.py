"""Export of traces by OTLP: the spans that a collector decodes, and the errors when it refuses."""

import os
import subprocess
import sys
from itertools import count

import pytest

from policies.api import Outcome, QuotaViolation
from proxy.telemetry.traces.otlp_exporter import OtlpSpanExporter
from proxy.telemetry.traces.spans import mute_span, spans_of
from tests.support.telemetry.collectors import Collector, refusing
from tests.support.telemetry.request_traces import trace, waits

SCOPE = {"name": "sluice", "version": "1.2.3"}
SECRET = "hunter2"  # noqa: S105 - stands for one


@pytest.fixture
def collector(monkeypatch):
    """Return a collector that the environment names."""
    with Collector() as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


def spans():
    """Return the spans of a throttled request that expired, and of its mute."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, 10.0)
    made = trace(waits(("throttle", 1500)), outcome=Outcome.EXPIRED, excess=excess, quiet_ms=5)
    made.trace_id = f"{0xABC5:032x}"
    mute = mute_span(made, made.ended_us + 5000, lambda: 0xD1)
    return [*spans_of(made, count(1).__next__), mute]


def sink(timeout_ms=5000):
    return OtlpSpanExporter({"service.name": "sluice", "k": "v"}, SCOPE, timeout_ms)


def test_a_collector_decodes_each_span_unchanged(collector):
    """Ids, times, kinds, attributes, links and status survive protobuf."""
    sent = spans()
    exporter = sink()
    assert exporter.send(sent) == ""
    exporter.close()

    for span, seen in zip(sent, collector.spans, strict=True):
        assert seen.name == span.name
        assert (int(seen.trace_id, 16), int(seen.span_id, 16)) == (span.trace_id, span.span_id)
        assert int(seen.parent_id or "0", 16) == span.parent_id
        assert (seen.start_ns, seen.end_ns) == (span.start_ns, span.end_ns)
        assert seen.kind == span.kind
        assert seen.attributes == span.attributes
        assert seen.links == tuple((f"{t:032x}", f"{s:016x}") for t, s in span.links)
        assert seen.status == (2 if span.failed else 0)
        assert seen.resource == {"service.name": "sluice", "k": "v"}
        assert seen.scope == ("sluice", "1.2.3")


def test_span_limits_are_taken_from_the_environment(collector, monkeypatch):
    """The variable is OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT."""
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
    exporter = sink()
    exporter.send(spans())
    exporter.close()

    assert collector.spans[0].attributes["messaging.client.id"] == "bil"


@pytest.mark.parametrize("status", [302, 400, 503])
def test_a_refused_export_fails_with_its_status(collector, status):
    """A redirect is a failure too, which the SDK would take for success."""
    collector.status = status
    exporter = sink(timeout_ms=300)

    assert exporter.send(spans()) == f"HTTP {status}"
    exporter.close()


def test_an_unreachable_collector_is_reported_by_the_errors_name(monkeypatch):
    """It is reported within the timeout."""
    for name, value in refusing().items():
        monkeypatch.setenv(name, value)
    exporter = sink(timeout_ms=300)

    assert exporter.send(spans()) == "ConnectionError"
    exporter.close()


def test_an_exporter_that_is_told_to_hurry_does_not_retry(collector):
    """The process is ending."""
    exporter = sink()
    exporter.stop_waiting()

    assert exporter.send(spans()) != ""
    assert collector.spans == []
    exporter.close()


def test_no_credential_is_logged():
    """The SDK would log those of a failing endpoint and of a malformed header."""
    (endpoint,) = refusing().values()
    code = """
from proxy.telemetry.traces.otlp_exporter import OtlpSpanExporter
sink = OtlpSpanExporter({}, {"name": "sluice", "version": "1"}, 1500)
assert sink.send([]) == "ConnectionError"
sink.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{endpoint}/v1/traces?key={SECRET}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"{SECRET}, a=b",
        },
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout + done.stderr == ""
