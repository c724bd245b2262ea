"""Which settings and variables make traces, and where these go."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proxy.telemetry.traces.exporters import make_tracer
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.otlp_exporter import OtlpSpanExporter
from proxy.telemetry.traces.resource import TracesError
from tests.support.trails import trail

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


def sink(made):
    assert made is not None
    made.close()
    return made._worker._sink


@pytest.mark.parametrize(
    ("export", "file", "environ", "wanted"),
    [
        ("auto", False, {}, None),
        ("auto", True, {}, FileSpanExporter),
        ("auto", False, OTLP, OtlpSpanExporter),
        ("auto", True, OTLP, OtlpSpanExporter),
        ("auto", True, OTLP | {"OTEL_SDK_DISABLED": "true"}, FileSpanExporter),
        ("otlp", True, {}, OtlpSpanExporter),
        ("file", True, OTLP, FileSpanExporter),
        ("none", True, OTLP, None),
    ],
)
def test_where_traces_go(tmp_path, export, file, environ, wanted):
    """By `export`; `auto` asks the environment first, then whether there is a file."""
    made = tracer(export, tmp_path / "t.jsonl" if file else "", **environ)

    assert (made and type(sink(made))) is wanted


def test_a_file_must_be_named(tmp_path):
    """`export: file` alone says too little."""
    with pytest.raises(TracesError, match=r"traces\.file"):
        tracer("file")


def test_what_the_variables_say_wrongly_is_refused():
    """Before anything is served."""
    with pytest.raises(TracesError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        tracer("otlp", **OTLP, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    with pytest.raises(TracesError, match="OTEL_BSP_SCHEDULE_DELAY"):
        tracer("otlp", **OTLP, OTEL_BSP_SCHEDULE_DELAY="soon")


def test_the_batch_variables_are_heeded(tmp_path):
    """OTEL_BSP_*: the queue's bound, the delay, the batch."""
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
        made.on_trail(trail())
    made.close()

    assert (made.delivered, made.dropped) == (4, 2)
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 2


def test_the_resource_is_the_environments(tmp_path):
    """OTEL_SERVICE_NAME in a trace file."""
    made = tracer("file", tmp_path / "t.jsonl", OTEL_SERVICE_NAME="orders-proxy")
    assert made is not None
    made.start()
    made.on_trail(trail())
    made.close()

    text = (tmp_path / "t.jsonl").read_text()
    assert '"orders-proxy"' in text
    assert '"version":"1.2.3"' in text


def test_the_sdk_is_imported_only_for_export(tmp_path):
    """Neither for no traces nor for a trace file."""
    code = f"""
import sys
from proxy.telemetry.traces.exporters import make_tracer
for export in ("none", "file"):
    make_tracer(export=export, file={str(tmp_path / "t")!r}, max_file_bytes=1 << 20, max_spans_per_second=1,
                version="1", environ={{}})
sys.exit(any(name.split(".")[0] in ("opentelemetry", "requests") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
