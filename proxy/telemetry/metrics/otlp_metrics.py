"""Sends the metrics by OTLP over HTTP with protobuf, through the exporter of OpenTelemetry's SDK.

Rules:
- Imported only if metrics are pushed, because the SDK is large.
- Names and units are those of the table without `_total`, which the OTLP-to-Prometheus mapping adds.
- Values are cumulative since the start of the process.
- The SDK reads endpoint, headers, compression and certificates from the OTEL_* variables. Resource and timeout are read
  as for spans. Failures are counted here, not logged by the SDK.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from proxy.telemetry.facts import STARTED_S
from proxy.telemetry.metrics.families import Distribution, MetricKind, bounds_of
from proxy.telemetry.traces.resource import TIMEOUT_MS, resource_of, setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.telemetry.metrics import families as of
    from proxy.telemetry.metrics.families import Family, MetricPoint

_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "": "1"}
_SCOPE = "sluice"


class OtlpMetricExporter:
    """A MetricExporter that uses the SDK."""

    def __init__(self, version: str) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._resource = Resource(resource_of(os.environ, version))
        common_ms = setting(os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT_MS)
        timeout_ms = setting(os.environ, "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", common_ms)
        self._exporter = OTLPMetricExporter(timeout=timeout_ms / 1000)

    def export(self, families: Iterable[Family], at_ms: int) -> bool:
        """See MetricExporter."""
        result = self._exporter.export(metrics_data(families, at_ms, self._resource))
        return result is MetricExportResult.SUCCESS

    def shutdown(self) -> None:
        """See MetricExporter."""
        self._exporter.shutdown()


def metrics_data(families: Iterable[Family], at_ms: int, resource: Resource) -> MetricsData:
    """Return the families as one push; they were collected at `at_ms` (Unix time)."""
    times = (int(STARTED_S * 1e9), at_ms * 1_000_000)
    metrics = [
        Metric(metric.family, metric.help, _UNITS[metric.unit], _data(metric, points, times))
        for metric, points in families
    ]
    scope = ScopeMetrics(InstrumentationScope(_SCOPE), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(
    metric: of.Metric, points: Sequence[MetricPoint], times: tuple[int, int]
) -> Sum | Gauge | Histogram:
    if metric.kind is MetricKind.HISTOGRAM:
        histograms = [_histogram(metric, point, times) for point in points]
        return Histogram(histograms, AggregationTemporality.CUMULATIVE)
    numbers = [
        NumberDataPoint(dict(zip(metric.labels, point.labels, strict=True)), *times, point.value)
        for point in points
        if not isinstance(point.value, Distribution)
    ]
    if metric.kind is MetricKind.COUNTER:
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _histogram(metric: of.Metric, point: MetricPoint, times: tuple[int, int]) -> HistogramDataPoint:
    value = point.value
    assert isinstance(value, Distribution)  # noqa: S101 - points of a histogram are Distributions
    below = (0, *value.below, value.total)
    return HistogramDataPoint(
        dict(zip(metric.labels, point.labels, strict=True)),
        *times,
        count=value.total,
        sum=value.sum,
        bucket_counts=[below[n + 1] - below[n] for n in range(len(below) - 1)],
        explicit_bounds=list(bounds_of(metric)),
        min=None,  # type: ignore[arg-type]  # not known; the field is optional on the wire
        max=None,  # type: ignore[arg-type]  # the same
    )
