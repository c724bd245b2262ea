"""The metrics that policies define (`policies.custom_metrics`), as families."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from policies.custom_metrics import HistogramSeries
from proxy.telemetry.metrics.families import Distribution, Family, Metric, MetricKind, MetricPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.chain import Entry
    from policies.custom_metrics import MetricSpec


def custom_metrics(entries: Iterable[Entry]) -> Iterator[Family]:
    """Yield a family for each metric that has values; entries that define the same metric are its label `policy`."""
    points: dict[MetricSpec, list[MetricPoint]] = {}
    for entry in entries:
        if entry.tools is None:
            continue
        for metric in entry.tools.metrics.by_name.values():
            for labels, value in metric.series.items():
                shown = _distribution(value) if isinstance(value, HistogramSeries) else value
                point = MetricPoint((entry.name, *labels), shown)
                points.setdefault(metric.spec, []).append(point)
    for spec, found in points.items():
        yield Family(_metric(spec), found)


def _metric(spec: MetricSpec) -> Metric:
    kind = MetricKind(spec.kind)
    ending = "_total" if kind is MetricKind.COUNTER else ""
    labels = ("policy", *spec.labels)
    return Metric(
        f"sluice_custom_{spec.name}{ending}", kind, spec.help, labels, buckets=spec.buckets
    )


def _distribution(series: HistogramSeries) -> Distribution:
    *below, total = accumulate(series.counts)
    return Distribution(tuple(below), total, series.sum, {})
