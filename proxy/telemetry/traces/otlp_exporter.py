"""Spans to a collector: through OpenTelemetry's SDK, by OTLP over HTTP, as the OTEL_* variables say.

Rules:
- Importing this imports the SDK; nobody does unless spans are to be exported.
- The SDK's exporter encodes, compresses and tries again; its tracer, processor and sampler are not used, for
  they cost 50 microseconds a request, on the loop, and seconds at the end.
- The SDK's own log lines are not shown: they repeat header values and addresses. What failed is told in our own
  words, by the name of the exception or the HTTP status.
- OTEL_EXPORTER_OTLP_TIMEOUT is milliseconds, as OpenTelemetry specifies (the SDK by itself would take seconds).
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
    """Remembers how the last attempt ended: an HTTP status or an exception's name, nothing that it says."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = ""
        self.taken = False

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - as it is
        """As requests does."""
        self.taken = False
        try:
            response = super().send(request, **kwargs)
        except Exception as error:
            self.ended = type(error).__name__
            raise
        self.ended = f"HTTP {response.status_code}"
        self.taken = 200 <= response.status_code < 300  # the SDK takes a redirection for success
        return response


class OtlpSpanExporter:
    """See the module. The endpoint, headers, certificates and compression are read from the process's environment."""

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

    def hurry(self) -> None:
        """See Sink: it does not try again."""
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
    """Before the SDK reads the environment."""
    everything = logging.getLogger("opentelemetry")
    everything.propagate = False
    if not everything.handlers:
        everything.addHandler(logging.NullHandler())


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)
