"""Sends spans to a collector by OTLP over HTTP, through the exporter of OpenTelemetry's SDK.

Rules:
- Importing this module imports the SDK, so it is imported only if spans are exported.
- The SDK's exporter encodes, compresses and retries. Its tracer, processor and sampler are not used, because they cost
  50 microseconds per request on the loop, and seconds at the end.
- The SDK's log lines are suppressed, because they contain header values and addresses. A failure is logged with the
  name of the exception or the HTTP status.
- OTEL_EXPORTER_OTLP_TIMEOUT is milliseconds, as OpenTelemetry specifies (the SDK alone would read seconds).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import requests
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from proxy.telemetry.traces.spans import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.telemetry.traces.spans import Span

_KINDS = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_ERROR = Status(StatusCode.ERROR)
_UNSET = Status(StatusCode.UNSET)


class _Session(requests.Session):
    """Keeps how the last attempt ended: the HTTP status or the name of the exception, without its message."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = ""
        self.taken = False

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - as it is
        """Send as requests does, and keep the result."""
        self.taken = False
        try:
            response = super().send(request, **kwargs)
        except Exception as error:
            self.ended = type(error).__name__
            raise
        self.ended = f"HTTP {response.status_code}"
        self.taken = 200 <= response.status_code < 300  # the SDK counts a redirection as success
        return response


class OtlpSpanExporter:
    """Sends spans; the SDK reads endpoint, headers, certificates and compression from the environment."""

    def __init__(
        self, resource: Mapping[str, str], scope: Mapping[str, str], timeout_ms: int
    ) -> None:
        _silence()
        self._session = _Session()
        self._exporter = OTLPSpanExporter(timeout=timeout_ms / 1000, session=self._session)
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope(scope["name"], scope["version"])
        self._limits = SpanLimits()

    def send(self, spans: Sequence[Span]) -> str:
        """See SpanExporter."""
        result = self._exporter.export([self._readable(span) for span in spans])
        if result is SpanExportResult.SUCCESS and self._session.taken:
            return ""
        return self._session.ended or "not tried"

    def stop_waiting(self) -> None:
        """See SpanExporter. It does not retry any more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # the SDK's

    def close(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # the SDK's

    def _readable(self, span: Span) -> ReadableSpan:
        limits = self._limits
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=BoundedAttributes(
                limits.max_span_attributes,
                span.attributes,
                max_value_len=limits.max_span_attribute_length,
            ),
            links=tuple(Link(_context(*link)) for link in span.links),
            kind=_KINDS[span.kind],
            status=_ERROR if span.failed else _UNSET,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _silence() -> None:
    """Suppress the SDK's log lines; call it before the SDK reads the environment."""
    everything = logging.getLogger("opentelemetry")
    everything.propagate = False
    if not everything.handlers:
        everything.addHandler(logging.NullHandler())


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)
