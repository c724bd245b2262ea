"""The table of metrics follows Prometheus' conventions and Kafka's names."""

import re

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.metric import MetricKind
from proxy.telemetry.metrics.names import ALL

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def test_every_metric_is_in_the_table_once() -> None:
    """Names are unique, and no family has the name of another's sample."""
    assert len({each.name for each in ALL}) == len(ALL)
    assert len({each.family for each in ALL}) == len(ALL)
    assert names.STAGE in ALL


def test_a_metrics_name_has_its_type_and_unit() -> None:
    """Counters and nothing else end in _total; a unit ends the family's name, as OpenMetrics requires."""
    for metric in ALL:
        name = metric.name
        assert NAME.fullmatch(name), name
        assert name.startswith(("sluice_", "process_")), name
        assert name.endswith("_total") == (metric.kind is MetricKind.COUNTER), name
        assert name.endswith("_info") == (metric.kind is MetricKind.INFO), name
        assert metric.family.endswith(f"_{metric.unit}" if metric.unit else ""), name
        assert not name.endswith(("_sum", "_count", "_bucket")), name
        assert bool(metric.edges) == (metric.kind is MetricKind.HISTOGRAM), name


def test_a_metric_has_a_help_text_of_one_line() -> None:
    """It is a sentence, so both formats take it unchanged."""
    for metric in ALL:
        assert metric.help.endswith("."), metric.name
        assert not re.search(r'[\n"\\]', metric.help), metric.name
        assert all(NAME.fullmatch(label) and label != "le" for label in metric.labels), metric.name


def test_kafkas_sensors_are_found_by_their_names() -> None:
    """A search for a sensor of KIP-72, KIP-124 or Kafka's purgatory finds ours on the page."""
    page = " ".join(each.help for each in ALL)
    for sensor in (
        *("MemoryPoolUsed", "MemoryPoolAvailable", "MemoryPoolAvgDepletedPercent"),
        *("MemoryPoolDepletedTimeTotal", "throttle-time", "request-time", "exempt-request-time"),
        *("PurgatorySize", "NumDelayedOperations", "RequestsPerSec", "ThrottleTimeMs"),
    ):
        assert re.search(rf"(?<![\w-]){sensor}\b", page), sensor
