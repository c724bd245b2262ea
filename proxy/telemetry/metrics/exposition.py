"""The page that Prometheus reads: text format 0.0.4, or OpenMetrics 1.0 on request. prometheus_client writes both.

Rules:
- `render` runs on a thread of its own: it reads only the collected families, and sleeps for REST_S after each PIECE of
  samples (half a millisecond). So a large page never keeps the interpreter from the event loop for longer.
- Exemplars are in OpenMetrics only; the text format has none.
- Names of metrics and labels are valid, and no name is replaced. Values of labels come from outside and are escaped.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8 as KEEP_NAMES
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

from proxy.telemetry.metrics.families import Distribution, bounds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.telemetry.metrics.families import Family

__all__ = ["OPENMETRICS", "TEXT", "render", "wants_openmetrics"]

PIECE: Final = 50
REST_S: Final = 0.001


def wants_openmetrics(accept: str) -> bool:
    """Return whether a request with this Accept header gets OpenMetrics."""
    return "application/openmetrics-text" in accept


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """Return the page, encoded in UTF-8."""
    write = write_openmetrics if openmetrics else write_text
    return write(_Families(families), escaping=KEEP_NAMES)


class _Families(Collector):
    """The families as prometheus_client reads them."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families
        self._written = 0

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = family.metric
            found = Metric(metric.family, metric.help, metric.kind.value, metric.unit)
            found.samples = self._rested(family)  # type: ignore[assignment] # it is read once
            yield found

    def _rested(self, family: Family) -> Iterator[Sample]:
        for sample in _samples(family):
            yield sample
            self._written += 1
            if self._written % PIECE == 0:
                time.sleep(REST_S)


def _samples(family: Family) -> Iterator[Sample]:
    metric = family.metric
    name = metric.name
    edges = (*(str(float(bound)) for bound in bounds_of(metric)), "+Inf")
    for values, value in family.points:
        labels = dict(zip(metric.labels, values, strict=True))
        if not isinstance(value, Distribution):
            yield Sample(name, labels, value)
            continue
        exemplars = {
            place: Exemplar({"trace_id": trace_id}, value_s, at_s)
            for place, (trace_id, value_s, at_s) in value.exemplars.items()
        }
        for place, (edge, count) in enumerate(zip(edges, (*value.below, value.total), strict=True)):
            exemplar = exemplars.get(place)
            yield Sample(f"{name}_bucket", labels | {"le": edge}, count, exemplar=exemplar)
        yield Sample(f"{name}_sum", labels, value.sum)
        yield Sample(f"{name}_count", labels, value.total)
