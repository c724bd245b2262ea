"""Spans into a file: OTLP/JSON, one batch a line, as OpenTelemetry's file exporters write it.

Rules:
- Ids are hexadecimal and 64-bit numbers are text: the JSON of OTLP, not that of protobuf.
- The file is a `RotatingFile`: whole lines, twice `max_bytes` on the disk at most, and it follows its name.
- It does not use the SDK, whose encoder takes 14 times as long and whose file exporter cannot be installed beside its
  OTLP exporter.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from proxy.telemetry.rotating_file import RotatingFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from proxy.telemetry.traces.attributes import Value
    from proxy.telemetry.traces.spans import Span

STATUS_ERROR = 2
_BOUNDLESS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_encode = msgspec.json.Encoder().encode


class FileSpanExporter:
    """Writes spans to the file at `path`. Raises OSError if it cannot be opened."""

    def __init__(
        self,
        path: str | Path,
        max_bytes: int,
        resource: Mapping[str, str],
        scope: Mapping[str, str],
    ) -> None:
        self._resource = {"attributes": _attributes(resource)}
        self._scope = dict(scope)
        self._file = RotatingFile(path, max_bytes)

    def send(self, spans: Sequence[Span]) -> str:
        """See SpanExporter."""
        try:
            self._file.append(self.line_of(spans))
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def stop_waiting(self) -> None:
        """Do nothing: a file does not block for long."""

    def close(self) -> None:
        """See SpanExporter."""
        self._file.close()

    def line_of(self, spans: Sequence[Span]) -> bytes:
        """Return the line that `send` writes."""
        scoped = [{"scope": self._scope, "spans": list(map(_span, spans))}]
        return (
            _encode({"resourceSpans": [{"resource": self._resource, "scopeSpans": scoped}]}) + b"\n"
        )


def _span(span: Span) -> dict[str, object]:
    found: dict[str, object] = {
        "traceId": f"{span.trace_id:032x}",
        "spanId": f"{span.span_id:016x}",
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        found["parentSpanId"] = f"{span.parent_id:016x}"
    if span.links:
        found["links"] = [
            {"traceId": f"{link.trace_id:032x}", "spanId": f"{link.span_id:016x}"}
            for link in span.links
        ]
    if span.failed:
        found["status"] = {"code": STATUS_ERROR}
    return found


def _attributes(attributes: Mapping[str, Value]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, object]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if isfinite(value) else _BOUNDLESS[str(value)]}
    return {"arrayValue": {"values": list(map(_value, value))}}
