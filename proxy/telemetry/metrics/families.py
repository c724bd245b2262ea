"""Metrics with their values at one moment, for the page and the push."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.stats.histogram import BUCKETS, PER_DOUBLING, edge_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# For sums a duration counts as the middle of its bucket.
_MIDDLES_S = (
    0.0,
    *((edge_us(place) + edge_us(place - 1)) / 2e6 for place in range(1, BUCKETS)),
)
Wait = tuple[str, str]
"""The name of an API and a stage."""


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


class Exemplar(NamedTuple):
    """One duration of a bucket in seconds, its trace, and its time (Unix time in seconds)."""

    trace_id: str
    value_s: float
    at_s: float


Exemplars = Mapping[int, Exemplar]
"""Exemplars by the index of their bucket; the last one is for durations above the last edge."""


class Distribution(NamedTuple):
    """A histogram at one moment. `below[i]` counts values of at most `bounds_of(metric)[i]`; `sum` is in its unit."""

    below: tuple[int, ...]
    total: int
    sum: float
    exemplars: Exemplars


class MetricPoint(NamedTuple):
    """One value, with the values of the metric's labels in their order."""

    labels: tuple[str, ...]
    value: float | Distribution


class Family(NamedTuple):
    """A metric and its values at one moment; never empty."""

    metric: Metric
    points: Sequence[MetricPoint]


def distribution(
    counts: Iterable[int], edges: range, exemplars: Exemplars | None = None
) -> Distribution:
    """Return a histogram of `proxy.core.stats.histogram` with these edges."""
    copied = list(counts)
    below = list(accumulate(copied))
    return Distribution(
        tuple(below[edge * PER_DOUBLING] for edge in edges),
        below[-1],
        sum(map(mul, copied, _MIDDLES_S)),
        exemplars or {},
    )


def bounds_of(metric: Metric) -> tuple[float, ...]:
    """Return the upper bounds of a histogram's buckets, in its unit."""
    return metric.buckets or tuple(2.0**edge / 1e6 for edge in metric.edges)


def place_of(us: int, edges: range) -> int:
    """Return the index of the bucket of a duration; `len(edges)` above the last edge."""
    exponent = (us - 1).bit_length() if us > 1 else 0
    return min(max(exponent - edges.start, 0), len(edges))
