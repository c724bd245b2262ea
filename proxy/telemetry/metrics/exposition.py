"""The page that Prometheus reads: text format 0.0.4, or OpenMetrics 1.0 on request.

Rules:
- A pure function of the collected families, so it may run on any thread.
- Exemplars are in OpenMetrics only; the text format has none.
- Names from outside (users) are escaped, never trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.telemetry.metrics.families import Distribution, bounds_of
from proxy.telemetry.metrics.metric import MetricKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.telemetry.metrics.families import Exemplar, Family
    from proxy.telemetry.metrics.metric import Metric

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def wants_openmetrics(accept: str) -> bool:
    """Return whether a request with this Accept header gets OpenMetrics."""
    return "application/openmetrics-text" in accept


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """Return the page, encoded in UTF-8."""
    lines: list[str] = []
    for metric, points in families:
        lines += _head(metric, openmetrics=openmetrics)
        names = metric.labels
        for labels, value in points:
            pairs = ",".join(
                f'{name}="{_escaped(label)}"' for name, label in zip(names, labels, strict=True)
            )
            if isinstance(value, Distribution):
                lines += _histogram(metric, pairs, value, openmetrics=openmetrics)
            else:
                lines.append(
                    f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}"
                )
    if openmetrics:
        lines.append("# EOF")
    lines.append("")
    return "\n".join(lines).encode()


def _head(metric: Metric, *, openmetrics: bool) -> Iterator[str]:
    name, kind = metric.name, metric.kind
    if openmetrics:
        name = metric.family
    elif kind is MetricKind.INFO:
        kind = MetricKind.GAUGE
    yield f"# HELP {name} {_escaped(metric.help) if openmetrics else metric.help}"
    yield f"# TYPE {name} {kind.value}"
    if openmetrics and metric.unit:
        yield f"# UNIT {name} {metric.unit}"


def _histogram(
    metric: Metric, pairs: str, value: Distribution, *, openmetrics: bool
) -> Iterator[str]:
    before = f"{pairs}," if pairs else ""
    within = f"{{{pairs}}}" if pairs else ""
    exemplars = value.exemplars if openmetrics else {}
    edges = (*(str(float(bound)) for bound in bounds_of(metric)), "+Inf")
    for place, (edge, count) in enumerate(zip(edges, (*value.below, value.total), strict=True)):
        line = f'{metric.name}_bucket{{{before}le="{edge}"}} {count}'
        exemplar = exemplars.get(place)
        yield line if exemplar is None else f"{line} {_exemplar(exemplar)}"
    yield f"{metric.name}_sum{within} {value.sum}"
    yield f"{metric.name}_count{within} {value.total}"


def _exemplar(exemplar: Exemplar) -> str:
    trace_id, value_s, at_s = exemplar
    return f'# {{trace_id="{trace_id}"}} {value_s} {at_s:.3f}'


def _escaped(text: str) -> str:
    if '"' in text or "\\" in text or "\n" in text:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text
