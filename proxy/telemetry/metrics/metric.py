"""A metric: its Prometheus name, its kind, and how its values are read."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MetricKind(Enum):
    """The types of OpenMetrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Metric(NamedTuple):
    """One metric under its Prometheus name. Upper bounds: `buckets`, or 2^n microseconds for each n in `edges`."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    edges: range = range(0)
    buckets: tuple[float, ...] = ()

    @property
    def family(self) -> str:
        """Return the name of the OpenMetrics family, without the suffix of its samples."""
        if self.kind is MetricKind.COUNTER:
            return self.name.removesuffix("_total")
        return self.name.removesuffix("_info") if self.kind is MetricKind.INFO else self.name
