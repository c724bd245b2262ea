"""Files of traces as the proxy writes them: its own spans by its own exporter."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from proxy.core.stats.request_trace import RequestTrace
from proxy.telemetry.traces.file_exporter import FileSpanExporter
from proxy.telemetry.traces.spans import SPAN_ID_MASK, Span, mute_span, spans_of

_ids = count(0xA0000001).__next__
SCOPE = {"name": "sluice", "version": "1.2.3"}


def spans_with_mute(made: RequestTrace, mute_us: int = 0) -> list[Span]:
    """Return the spans of a request under a new trace id, and of a throttle that lasts this long after the reply."""
    made.trace_id = f"{_ids() << 64 | _ids() & SPAN_ID_MASK:032x}"
    spans = spans_of(made, _ids)
    if mute_us:
        spans.append(mute_span(made, made.ended_us + mute_us, _ids))
    return spans


def write_traces(
    path: Path, *batches: Sequence[Span], service: str = "orders-proxy", scope: str = "sluice"
) -> Path:
    """Append each batch as a line; return the path."""
    exporter = FileSpanExporter(path, 1 << 30, {"service.name": service}, SCOPE | {"name": scope})
    for batch in batches:
        assert exporter.send(batch) == ""
    exporter.close()
    return path
