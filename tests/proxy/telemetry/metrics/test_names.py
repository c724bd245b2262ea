"""The table of metrics follows Prometheus' conventions and Kafka's names."""

import re

import pytest

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.metric import Metric, MetricKind
from proxy.telemetry.metrics.names import ALL

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def named(metric: Metric) -> str:
    return metric.name


def test_every_metric_is_in_the_table_once() -> None:
    """Names are unique, and no family has the name of another's sample."""
    assert len({each.name for each in ALL}) == len(ALL)
    assert len({each.family for each in ALL}) == len(ALL)
    assert names.STAGE in ALL


@pytest.mark.parametrize("metric", ALL, ids=named)
def test_a_metrics_name_has_its_type_and_unit(metric: Metric) -> None:
    """Counters and nothing else end in _total; a unit ends the family's name, as OpenMetrics requires."""
    assert NAME.fullmatch(metric.name)
    assert metric.name.startswith(("sluice_", "process_"))
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.name.endswith("_info") == (metric.kind is MetricKind.INFO)
    assert metric.family.endswith(f"_{metric.unit}" if metric.unit else "")
    assert not metric.name.endswith(("_sum", "_count", "_bucket"))
    assert bool(metric.edges) == (metric.kind is MetricKind.HISTOGRAM)


@pytest.mark.parametrize("metric", ALL, ids=named)
def test_a_metric_has_a_help_text_of_one_line(metric: Metric) -> None:
    """It is a sentence, so both formats take it unchanged."""
    assert metric.help.endswith(".")
    assert not re.search(r'[\n"\\]', metric.help)
    assert all(NAME.fullmatch(label) and label != "le" for label in metric.labels)


@pytest.mark.parametrize(
    "sensor",
    [
        *("MemoryPoolUsed", "MemoryPoolAvailable", "MemoryPoolAvgDepletedPercent"),
        *("MemoryPoolDepletedTimeTotal", "throttle-time", "request-time", "exempt-request-time"),
        *("PurgatorySize", "NumDelayedOperations", "RequestsPerSec", "ThrottleTimeMs"),
    ],
)
def test_kafkas_sensors_are_found_by_their_names(sensor: str) -> None:
    """A search for a sensor of KIP-72, KIP-124 or Kafka's purgatory finds ours on the page."""
    assert [each.name for each in ALL if re.search(rf"(?<![\w-]){sensor}\b", each.help)]
