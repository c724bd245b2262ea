"""The trace file: whole lines of OTLP/JSON on a bounded disk."""

import errno
import json
import os
from itertools import count

from policies.api import Outcome, QuotaViolation
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.spans import mute_span, spans_of
from tests.support.telemetry.request_traces import EPOCH_US, trace, waits

RESOURCE = {"service.name": "sluice"}
SCOPE = {"name": "sluice", "version": "1.2.3"}


def spans():
    """Return the spans of a throttled request that expired, and of its mute."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, float("inf"))
    made = trace(waits(("throttle", 1500)), outcome=Outcome.EXPIRED, excess=excess, quiet_ms=5)
    made.trace_id = f"{0xABC5:032x}"
    mute = mute_span(made, made.ended_us + 5000, lambda: 0xD1)
    return [*spans_of(made, count(1).__next__), mute]


def sink(path, max_bytes=1 << 20):
    return FileSpanExporter(path, max_bytes, RESOURCE, SCOPE)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_batch_is_one_line_of_otlp_json(tmp_path):
    """As the specification requires, ids are hexadecimal and 64-bit numbers are text."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path)
    assert writer.send(spans()) == ""
    writer.close()

    ((of,),) = (line["resourceSpans"] for line in lines(path))
    assert of["resource"] == {
        "attributes": [{"key": "service.name", "value": {"stringValue": "sluice"}}]
    }
    (scoped,) = of["scopeSpans"]
    assert scoped["scope"] == SCOPE
    server, throttle, upstream, mute = scoped["spans"]
    assert (server["traceId"], server["spanId"]) == ("0" * 28 + "abc5", "0" * 12 + "abc5")
    assert "parentSpanId" not in server
    assert server["kind"] == 2
    assert server["startTimeUnixNano"] == str(EPOCH_US * 1000)
    assert server["endTimeUnixNano"] == str((EPOCH_US + 6500) * 1000)
    assert server["status"] == upstream["status"] == {"code": 2}
    assert (throttle["kind"], upstream["kind"]) == (1, 3)
    assert throttle["parentSpanId"] == upstream["parentSpanId"] == server["spanId"]
    assert "status" not in throttle
    assert mute["links"] == [{"traceId": server["traceId"], "spanId": server["spanId"]}]


def test_attribute_values_have_their_types(tmp_path):
    """They are texts, whole numbers as text, fractions and lists; infinity is not null."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path)
    writer.send(spans())
    writer.close()

    server = lines(path)[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    values = {pair["key"]: pair["value"] for pair in server["attributes"]}
    assert values["messaging.system"] == {"stringValue": "kafka"}
    assert values["sluice.correlation_id"] == {"intValue": "77"}
    assert values["sluice.throttle.ms"] == {"doubleValue": 1.5}
    assert values["sluice.quota.bound"] == {"doubleValue": "Infinity"}
    assert values["sluice.reasons"] == {
        "arrayValue": {"values": [{"stringValue": "throttled"}, {"stringValue": "expired"}]}
    }


def test_the_reason_of_a_failed_write_is_returned(tmp_path, monkeypatch):
    """The spans are dropped then; the next ones are written when there is space, in a bounded file."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path, max_bytes=100)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert writer.send(spans()) == "No space left on device"
    for _ in range(3):
        assert writer.send(spans()) == ""
    writer.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["traces.jsonl", "traces.jsonl.1"]
    assert len(lines(path)) == 1
