"""Chooses the exporter of traces from the settings and OpenTelemetry's environment variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from proxy.telemetry.traces import resource
from proxy.telemetry.traces.batch_processor import DELAY_MS, MAX_BATCH_SPANS
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.resource import TracesError
from proxy.telemetry.traces.tracer import MAX_QUEUED_SPANS, Tracer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.telemetry.traces.batch_processor import SpanExporter

SCOPE_NAME = "sluice"


def make_tracer(
    *,
    export: Literal["auto", "otlp", "file", "none"],
    file: str,
    max_file_bytes: int,
    max_spans_per_second: int,
    version: str,
    environ: Mapping[str, str] = os.environ,
) -> Tracer | None:
    """Return the tracer for these settings (see `proxy.config.telemetry`); None if traces are off.

    `auto` means OTLP if an endpoint is set, else the file if one is set. Raises TracesError for an invalid
    variable, OSError for a file that cannot be opened.
    """
    exporter = _exporter(export, file, max_file_bytes, version, environ)
    if exporter is None:
        return None
    return Tracer(
        exporter,
        max_spans_per_second=max_spans_per_second,
        max_queued_spans=resource.setting(environ, "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUED_SPANS),
        delay_ms=resource.setting(environ, "OTEL_BSP_SCHEDULE_DELAY", DELAY_MS),
        max_batch_spans=resource.setting(
            environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MAX_BATCH_SPANS
        ),
    )


def _exporter(
    export: str, file: str, max_file_bytes: int, version: str, environ: Mapping[str, str]
) -> SpanExporter | None:
    described = resource.resource_of(environ, version)
    scope = {"name": SCOPE_NAME, "version": version}
    if export == "otlp" or (export == "auto" and resource.wants_otlp(environ)):
        resource.check_otlp(environ)
        from proxy.telemetry.traces.otlp_exporter import OtlpSpanExporter  # noqa: PLC0415 - only now is the SDK needed

        return OtlpSpanExporter(described, scope, resource.timeout_ms(environ))
    if export == "file" and not file:
        raise TracesError("traces.export is file, but traces.file is empty")
    if file and export != "none":
        return FileSpanExporter(file, max_file_bytes, described, scope)
    return None
