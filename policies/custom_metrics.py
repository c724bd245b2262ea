"""Counters and histograms that policies define, for the page of metrics.

Rules:
- A metric is `sluice_custom_NAME` (a counter: with `_total`). Its first label is `policy`, the entry's name, so entries
  that define the same metric share it; they must define it alike.
- Metrics are made in `__init__` and checked there. Adding to one is cheap enough for every request.
- The values of labels may come from clients, so they are bounded: a metric has MAX_SERIES series, and all further
  values are counted in the series whose labels are all `other`.
- After a reload the entry of the same name continues the series of a metric that is defined as before.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from policies.type_names import describe_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_METRICS: Final = 50
"""Metrics of one entry."""
MAX_SERIES: Final = 100
"""Series of one metric and entry, besides `other`."""
MAX_LABELS: Final = 5
MAX_BUCKETS: Final = 30
MAX_NAME_CHARS: Final = 80
MAX_HELP_CHARS: Final = 250
MAX_LABEL_CHARS: Final = 200
"""The value of a label is cut to this length."""
OTHER: Final = "other"
_MAX_VALUE: Final = 1e15
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_ENDINGS = ("_total", "_bucket", "_sum", "_count", "_info", "_created")
_RESERVED = frozenset({"policy", "le", "quantile", "job", "instance"})


class MetricSpec(NamedTuple):
    """The definition of a metric. `buckets` are the upper bounds of a histogram."""

    kind: Literal["counter", "histogram"]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class PolicyCounter:
    """A counter of one entry."""

    __slots__ = ("series", "spec")

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.series: dict[tuple[str, ...], float] = {}
        """The counts by the values of the labels."""

    def add(self, count: float, *labels: str) -> None:
        """Add to the series with these values of the labels. Raises ValueError or TypeError for wrong arguments."""
        if not 0 <= count <= _MAX_VALUE:
            raise ValueError(_wrong_value(self.spec, count, f"0..{_MAX_VALUE:.0f}"))
        try:
            self.series[labels] += count
        except KeyError:
            key = _series_key(self.spec, labels, self.series)
            self.series[key] = self.series.get(key, 0) + count


class PolicyHistogram:
    """A histogram of one entry."""

    __slots__ = ("series", "spec")

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.series: dict[tuple[str, ...], HistogramSeries] = {}
        """The values by those of the labels."""

    def add(self, value: float, *labels: str) -> None:
        """Add a value to the series with these values of the labels. Raises ValueError or TypeError as a counter."""
        if not -_MAX_VALUE <= value <= _MAX_VALUE:
            raise ValueError(_wrong_value(self.spec, value, f"-{_MAX_VALUE:.0f}..{_MAX_VALUE:.0f}"))
        series = self.series.get(labels)
        if series is None:
            key = _series_key(self.spec, labels, self.series)
            series = self.series.get(key)
            if series is None:
                series = self.series[key] = HistogramSeries(len(self.spec.buckets))
        series.counts[bisect_left(self.spec.buckets, value)] += 1
        series.sum += value


class HistogramSeries:
    """The values of one series: their number in each bucket (the last one: above all bounds), and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.sum = 0.0


CustomMetric = PolicyCounter | PolicyHistogram


class CustomMetrics:
    """The metrics of one entry, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, CustomMetric] = {}

    def counter(self, spec: MetricSpec) -> PolicyCounter:
        """Return the counter with this definition, a new one at first. Raises ValueError if it is wrong."""
        found = self._known(spec)
        if isinstance(found, PolicyCounter):
            return found
        made = self.by_name[spec.name] = PolicyCounter(spec)
        return made

    def histogram(self, spec: MetricSpec) -> PolicyHistogram:
        """Return the histogram with this definition, a new one at first. Raises ValueError if it is wrong."""
        found = self._known(spec)
        if isinstance(found, PolicyHistogram):
            return found
        made = self.by_name[spec.name] = PolicyHistogram(spec)
        return made

    def adopt(self, previous: CustomMetrics) -> None:
        """Continue the series of metrics that the entry defined in the same way before a reload."""
        for name, metric in self.by_name.items():
            before = previous.by_name.get(name)
            if before is not None and before.spec == metric.spec:
                # Shared: requests that the policy from before the reload has judged still count there.
                metric.series = before.series

    def _known(self, spec: MetricSpec) -> CustomMetric | None:
        check_spec(spec)
        found = self.by_name.get(spec.name)
        if found is not None and found.spec != spec:
            raise ValueError(f"the metric {spec.name} is defined twice, and differently")
        if found is None and len(self.by_name) >= MAX_METRICS:
            raise ValueError(
                f"{spec.name} is metric {MAX_METRICS + 1}, expected {MAX_METRICS} at most"
            )
        return found


def conflicts(metrics: CustomMetrics, defined: Mapping[str, MetricSpec]) -> Iterable[str]:
    """Yield a text for each metric that another entry has defined differently."""
    for name, metric in metrics.by_name.items():
        if defined.get(name, metric.spec) != metric.spec:
            yield f"the metric {name} is defined differently by another entry"


def check_spec(spec: MetricSpec) -> None:
    """Check a definition. Raises ValueError, which names the part, its value and what is expected."""
    if not _is_name(spec.name) or spec.name.endswith(_ENDINGS):
        expected = f"words of a-z and 0-9 joined by _, without the ending {', '.join(_ENDINGS)}"
        raise ValueError(f"the metric's name is {describe_value(spec.name)}, expected {expected}")
    about = f"the metric {spec.name}"
    text: object = spec.help
    if not isinstance(text, str) or not 0 < len(text) <= MAX_HELP_CHARS or not text.isprintable():
        expected = f"a line of 1..{MAX_HELP_CHARS} characters"
        raise ValueError(f"{about} has the help {describe_value(text)}, expected {expected}")
    labels = spec.labels
    names = [each for each in labels if _is_name(each) and each not in _RESERVED]
    if len(set(names)) != len(labels) or len(labels) > MAX_LABELS:
        expected = f"{MAX_LABELS} different names at most, none of {', '.join(sorted(_RESERVED))}"
        raise ValueError(
            f"{about} has the labels {', '.join(map(describe_value, labels))}, expected {expected}"
        )
    if spec.kind == "histogram":
        bounds = [
            each for each in spec.buckets if type(each) in {int, float} and abs(each) <= _MAX_VALUE
        ]
        if bounds != sorted(set(bounds)) or not 0 < len(bounds) == len(spec.buckets) <= MAX_BUCKETS:
            shown = ", ".join(map(describe_value, spec.buckets[: MAX_BUCKETS + 1]))
            raise ValueError(
                f"{about} has the buckets {shown}, expected 1..{MAX_BUCKETS} rising numbers"
            )


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str) and len(name) <= MAX_NAME_CHARS and _NAME.fullmatch(name) is not None
    )


def _series_key(
    spec: MetricSpec, labels: tuple[str, ...], series: Mapping[tuple[str, ...], object]
) -> tuple[str, ...]:
    """Return the key of the series for values of labels that have none of their own (yet)."""
    if len(labels) != len(spec.labels) or not all(type(each) is str for each in labels):
        expected = ", ".join(spec.labels) or "none"
        shown = ", ".join(map(describe_value, labels)) or "none"
        raise TypeError(
            f"the labels of the metric {spec.name} are {shown}, expected texts for: {expected}"
        )
    # Halves of surrogate pairs cannot be written as UTF-8.
    key = tuple(
        each[:MAX_LABEL_CHARS].encode(errors="backslashreplace").decode() for each in labels
    )
    return key if key in series or len(series) < MAX_SERIES else (OTHER,) * len(labels)


def _wrong_value(spec: MetricSpec, value: object, expected: str) -> str:
    return f"the metric {spec.name} gets {describe_value(value)}, expected a number in {expected}"
