"""The trace file: whole lines of OTLP/JSON on a bounded disk."""

import errno
import json
import os
from itertools import count

import pytest

from policies.api import Outcome, QuotaViolation
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.spans import mute_span, spans_of
from tests.support.telemetry.request_traces import EPOCH_US, trace, waits

RESOURCE = {"service.name": "sluice"}
SCOPE = {"name": "sluice", "version": "1.2.3"}


def spans(trace_id=0xABC5):
    """Return the spans of a throttled request that expired, and of its mute."""
    excess = QuotaViolation("user alice", "request_rate", 12.5, float("inf"))
    made = trace(waits(("throttle", 1500)), outcome=Outcome.EXPIRED, excess=excess, quiet_ms=5)
    made.trace_id = f"{trace_id:032x}"
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


def test_lines_are_appended_to_an_existing_file(tmp_path):
    """The process was restarted."""
    path = tmp_path / "traces.jsonl"
    for _ in range(2):
        writer = sink(path)
        writer.send(spans())
        writer.close()

    assert len(lines(path)) == 2


@pytest.mark.parametrize("torn", [b'{"resource', b"x" * 200_000])
@pytest.mark.parametrize("before", [b"", b'{"a":1}\n'])
def test_an_incomplete_last_line_of_a_crash_is_removed(tmp_path, before, torn):
    """Everything after the last newline is removed."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(before + torn)
    writer = sink(path)
    writer.send(spans())
    writer.close()

    assert path.read_bytes().startswith(before)
    assert len(lines(path)) == before.count(b"\n") + 1


def test_the_file_is_rotated_at_its_size(tmp_path):
    """There is one older file; both are below twice the size together, and no line is lost."""
    path = tmp_path / "traces.jsonl"
    line = len(sink(tmp_path / "x").line_of(spans()))
    writer = sink(path, 3 * line + 10)
    for trace_id in range(1, 8):
        assert writer.send(spans(trace_id)) == ""
    writer.close()

    assert sorted(p.name for p in tmp_path.iterdir()) == ["traces.jsonl", "traces.jsonl.1", "x"]
    assert len(lines(path)) == 1
    assert len(lines(tmp_path / "traces.jsonl.1")) == 3


@pytest.mark.parametrize("after", ["moved", "removed", "replaced"])
def test_a_file_that_was_moved_is_created_again(tmp_path, after):
    """Logrotate may move it: the next line goes to a file of the configured name, without a signal."""
    path, moved = tmp_path / "traces.jsonl", tmp_path / "traces.jsonl-2026"
    writer = sink(path)
    assert writer.send(spans()) == ""
    if after == "removed":
        path.unlink()
    else:
        path.rename(moved)
        assert len(lines(moved)) == 1
    if after == "replaced":
        path.touch()
    for _ in range(2):
        assert writer.send(spans()) == ""
    writer.close()
    assert len(lines(path)) == 2
    assert not moved.exists() or len(lines(moved)) == 1


def test_a_file_that_was_truncated_continues_at_its_end(tmp_path, monkeypatch):
    """This is logrotate's copytruncate; a failed write after it leaves no hole either."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path)
    assert writer.send(spans()) == ""
    os.truncate(path, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", no_space)
        assert writer.send(spans()) == os.strerror(errno.ENOSPC)
    assert path.stat().st_size == 0
    assert writer.send(spans()) == ""
    writer.close()
    assert len(lines(path)) == 1


def test_a_missing_folder_is_reported_and_tried_again(tmp_path):
    """Each line tries; the first line after the folder is back is written."""
    folder = tmp_path / "folder"
    folder.mkdir()
    writer = sink(folder / "traces.jsonl")
    folder.rename(tmp_path / "elsewhere")
    assert writer.send(spans()) == os.strerror(errno.ENOENT)
    folder.mkdir()
    assert writer.send(spans()) == ""
    writer.close()
    assert len(lines(folder / "traces.jsonl")) == 1


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_line_larger_than_the_file_is_still_written(tmp_path):
    """It gets a file of its own."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path, 100)
    writer.send(spans())
    writer.send(spans())
    writer.close()

    assert len(lines(path)) == len(lines(tmp_path / "traces.jsonl.1")) == 1


def test_a_full_disk_leaves_no_incomplete_line(tmp_path, monkeypatch):
    """The written part of a line is removed; lines are written again when there is space."""
    path = tmp_path / "traces.jsonl"
    writer = sink(path)
    writer.send(spans())
    write = os.write
    room = [100]

    def full(fd, data):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert writer.send(spans()) == "No space left on device"
    assert len(lines(path)) == 1
    assert writer.send(spans()) == ""
    writer.close()
    assert len(lines(path)) == 2


def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path):
    """It is not reported only at the first span."""
    with pytest.raises(OSError, match="No such file"):
        sink(tmp_path / "nowhere" / "traces.jsonl")
