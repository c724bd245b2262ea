"""The settings and variables that choose the exporter of traces."""

import subprocess
import sys

import pytest

from proxy.telemetry.traces.exporters import make_tracer
from proxy.telemetry.traces.resource import TracesError
from tests.support.telemetry.collectors import Collector
from tests.support.telemetry.request_traces import trace

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def tracer(export, file="", **environ):
    return make_tracer(
        export=export,
        file=str(file),
        max_file_bytes=1 << 20,
        max_spans_per_second=100,
        version="1.2.3",
        environ=environ,
    )


@pytest.mark.parametrize(
    ("export", "file", "otlp", "disabled", "expected"),
    [
        ("auto", False, False, False, ""),
        ("auto", True, False, False, "file"),
        ("auto", False, True, False, "collector"),
        ("auto", True, True, False, "collector"),
        ("auto", True, True, True, "file"),
        ("otlp", True, True, False, "collector"),
        ("file", True, True, False, "file"),
        ("none", True, True, False, ""),
    ],
)
def test_the_exporter_is_chosen_by_settings_and_variables(
    tmp_path, monkeypatch, export, file, otlp, disabled, expected
):
    """`export` chooses where spans go; `auto` uses the environment first, then the file."""
    path = tmp_path / "t.jsonl"
    with Collector() as collector:
        environ = collector.variables if otlp else {}
        for name, value in environ.items():  # the SDK reads them itself
            monkeypatch.setenv(name, value)
        disables = {"OTEL_SDK_DISABLED": "true"} if disabled else {}
        made = tracer(export, path if file else "", **environ, **disables)
        if made is not None:
            made.start()
            made.on_trace(trace())
            made.close(60)
        written = path.exists() and path.read_text() != ""

    assert (bool(collector.spans), written) == (expected == "collector", expected == "file")
    assert (made is None) == (expected == "")


def test_export_file_needs_a_file(tmp_path):
    """`export: file` without a path is refused."""
    with pytest.raises(TracesError, match=r"traces\.file"):
        tracer("file")


def test_invalid_variables_are_refused():
    """They are refused before any client is accepted."""
    with pytest.raises(TracesError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        tracer("otlp", **OTLP, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    with pytest.raises(TracesError, match="OTEL_BSP_SCHEDULE_DELAY"):
        tracer("otlp", **OTLP, OTEL_BSP_SCHEDULE_DELAY="soon")


def test_the_batch_variables_are_used(tmp_path):
    """OTEL_BSP_* set the queue's bound, the delay and the batch size."""
    made = tracer(
        "file",
        tmp_path / "t.jsonl",
        OTEL_BSP_MAX_QUEUE_SIZE="2",
        OTEL_BSP_SCHEDULE_DELAY="60000",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="2",
    )
    assert made is not None
    made.start()
    for _ in range(3):
        made.on_trace(trace())
    made.close()

    assert (made.delivered, made.dropped) == (4, 2)
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 2


def test_the_resource_is_taken_from_the_environment(tmp_path):
    """OTEL_SERVICE_NAME is in the trace file."""
    made = tracer("file", tmp_path / "t.jsonl", OTEL_SERVICE_NAME="orders-proxy")
    assert made is not None
    made.start()
    made.on_trace(trace())
    made.close()

    text = (tmp_path / "t.jsonl").read_text()
    assert '"orders-proxy"' in text
    assert '"version":"1.2.3"' in text


def test_the_sdk_is_imported_only_for_export(tmp_path):
    """It is imported neither without traces nor for a trace file."""
    code = f"""
import sys
from proxy.telemetry.traces.exporters import make_tracer
for export in ("none", "file"):
    make_tracer(export=export, file={str(tmp_path / "t")!r}, max_file_bytes=1 << 20, max_spans_per_second=1,
                version="1", environ={{}})
sys.exit(any(name.split(".")[0] in ("opentelemetry", "requests") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
