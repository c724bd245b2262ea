"""Spans into a file: OTLP/JSON, one batch a line, as OpenTelemetry's file exporters write it.

Rules:
- Ids in hex, 64-bit numbers as text: OTLP's own JSON, not protobuf's.
- A line is written whole or not at all: what a full disk has cut off is taken back, and what a crash has left
  behind the last newline is cut when the file is opened again.
- At `most_bytes` the file becomes FILE.1 and a new one begins: the disk holds twice that at most.
- No SDK: its encoder takes 14 times as long, and its file exporter cannot be installed beside its OTLP exporter.
"""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.telemetry.traces.attributes import Value
    from proxy.telemetry.traces.spans import Span

STATUS_ERROR = 2
_LOOK_BACK_BYTES = 65536
_BOUNDLESS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_encode = msgspec.json.Encoder().encode


class FileSink:
    """See the module. Raises OSError if the file cannot be opened."""

    def __init__(
        self,
        path: str | Path,
        most_bytes: int,
        resource: Mapping[str, str],
        scope: Mapping[str, str],
    ) -> None:
        self._path = Path(path)
        self._most_bytes = most_bytes
        self._resource = {"attributes": _attributes(resource)}
        self._scope = dict(scope)
        self._open()

    def send(self, spans: Sequence[Span]) -> str:
        """See Sink."""
        line = self.line_of(spans)
        try:
            if self._size_bytes and self._size_bytes + len(line) > self._most_bytes:
                self._rotate()
            self._write(line)
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def hurry(self) -> None:
        """A file does not keep anybody waiting."""

    def close(self) -> None:
        """See Sink."""
        os.close(self._fd)

    def line_of(self, spans: Sequence[Span]) -> bytes:
        """What `send` writes."""
        scoped = [{"scope": self._scope, "spans": list(map(_span, spans))}]
        return (
            _encode({"resourceSpans": [{"resource": self._resource, "scopeSpans": scoped}]}) + b"\n"
        )

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size_bytes = _end_of_last_line(self._fd)
        os.ftruncate(self._fd, self._size_bytes)

    def _rotate(self) -> None:
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        before = self._fd
        self._open()
        os.close(before)

    def _write(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, memoryview(line)[written:])
        except OSError:
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += written


def _end_of_last_line(fd: int) -> int:
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _LOOK_BACK_BYTES)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


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
