"""Metrics with their values, copied at one moment: what the page shows and the push sends."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.stats.histogram import BUCKETS, PER_DOUBLING, edge_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.telemetry.metrics.names import Metric

# A duration is taken for the middle of its bucket, where only a sum is wanted.
_MIDDLES_S = (
    0.0,
    *((edge_us(place) + edge_us(place - 1)) / 2e6 for place in range(1, BUCKETS)),
)


class Exemplar(NamedTuple):
    """One of those that a bucket has counted, and where its trace is. Unix time."""

    trace_id: str
    value_s: float
    at_s: float


Exemplars = Mapping[int, Exemplar]
"""By the place of their bucket among a metric's edges; one more for what took longer than the last."""


class Distribution(NamedTuple):
    """A histogram at one moment. `below[i]` counts what took at most 2^edges[i] microseconds."""

    below: tuple[int, ...]
    total: int
    sum_s: float
    exemplars: Exemplars


class MetricPoint(NamedTuple):
    """One value. `labels` are the values of the metric's labels, in their order."""

    labels: tuple[str, ...]
    value: float | Distribution


class Family(NamedTuple):
    """A metric and everything it says at this moment; never empty."""

    metric: Metric
    points: Sequence[MetricPoint]


def distribution(
    counts: Iterable[int], edges: range, exemplars: Exemplars | None = None
) -> Distribution:
    """What a histogram of `proxy.core.stats.histogram` says at these edges."""
    copied = list(counts)
    below = list(accumulate(copied))
    return Distribution(
        tuple(below[edge * PER_DOUBLING] for edge in edges),
        below[-1],
        sum(map(mul, copied, _MIDDLES_S)),
        exemplars or {},
    )


def place_of(us: int, edges: range) -> int:
    """The place among these edges of the bucket that a duration falls into; `len(edges)` beyond the last."""
    exponent = (us - 1).bit_length() if us > 1 else 0
    return min(max(exponent - edges.start, 0), len(edges))
