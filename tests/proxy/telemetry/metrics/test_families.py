"""Metrics with values: their table, histograms as the exporters need them, and exemplars."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stats.histogram import BUCKETS, FINE_US, bucket_of
from proxy.core.stats.request_trace import RequestTrace, Stage
from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.families import MetricKind, distribution, place_of
from proxy.telemetry.metrics.metrics_observer import ExemplarStore
from proxy.telemetry.metrics.names import ALL, STAGE, STEP
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey

DURATIONS = st.lists(st.integers(min_value=0, max_value=FINE_US - 1), max_size=50)


def counted(durations: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for us in durations:
        counts[bucket_of(us)] += 1
    return counts


@given(DURATIONS, st.sampled_from([STAGE.edges, STEP.edges]))
def test_each_edge_counts_the_durations_up_to_it(durations: list[int], edges: range) -> None:
    """No duration is rounded across an edge, because the edges are edges of the original buckets."""
    found = distribution(counted(durations), edges)

    assert list(found.below) == [sum(us <= 2**edge for us in durations) for edge in edges]
    assert found.total == len(durations)


@given(DURATIONS)
def test_the_sum_is_exact_to_half_a_bucket(durations: list[int]) -> None:
    """A bucket is 9 % wide, so its middle is less than 5 % away; up to a microsecond counts as 0."""
    found = distribution(counted(durations), STAGE.edges)
    true_s = sum(us for us in durations if us > 1) / 1e6

    assert found.sum == pytest.approx(true_s, rel=0.05)


def test_a_copied_histogram_does_not_change() -> None:
    """The request path counts on in the original."""
    counts = counted([500, 500])
    found = distribution(counts, STAGE.edges)
    counts[bucket_of(500)] += 1

    assert found.total == 2
    assert max(found.below) == 2


@given(st.integers(min_value=0, max_value=2**32), st.sampled_from([STAGE.edges, STEP.edges]))
def test_a_duration_has_its_place_among_the_edges(us: int, edges: range) -> None:
    """It is the first edge that is not below it, or one after the last."""
    place = place_of(us, edges)

    assert place == next((n for n, edge in enumerate(edges) if us <= 2**edge), len(edges))


NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def test_every_metric_is_in_the_table_once_under_a_name_of_its_type_and_unit() -> None:
    """No family has the name of another's sample; types, units and helps are those that OpenMetrics requires."""
    assert len({each.name for each in ALL}) == len(ALL)
    assert len({each.family for each in ALL}) == len(ALL)
    assert names.STAGE in ALL

    for metric in ALL:
        name = metric.name
        assert NAME.fullmatch(name), name
        assert name.startswith(("sluice_", "process_")), name
        assert name.endswith("_total") == (metric.kind is MetricKind.COUNTER), name
        assert name.endswith("_info") == (metric.kind is MetricKind.INFO), name
        assert metric.family.endswith(f"_{metric.unit}" if metric.unit else ""), name
        assert not name.endswith(("_sum", "_count", "_bucket")), name
        assert bool(metric.edges) == (metric.kind is MetricKind.HISTOGRAM), name

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


ID = "0123456789abcdef0123456789abcdef"
BEGAN_US = 1_700_000_000_000_000


def trace_of(*waits: tuple[str, int], trace_id: str = ID) -> RequestTrace:
    trace = RequestTrace(BEGAN_US)
    trace.api = api_of(ApiKey.PRODUCE, 9)
    trace.trace_id = trace_id
    trace.stages = [Stage(kind, BEGAN_US, BEGAN_US + us) for kind, us in waits]
    return trace


@pytest.mark.parametrize("kind", ["receive", "memory"])
def test_only_throttle_and_purgatory_have_exemplars(kind: str) -> None:
    """No policy causes the other waits."""
    exemplars = ExemplarStore()
    exemplars.note(trace_of((kind, 300_000)))

    assert not exemplars.copy()


def test_a_request_without_an_exported_trace_leaves_no_exemplar() -> None:
    """It has no trace id."""
    exemplars = ExemplarStore()
    exemplars.note(trace_of(("throttle", 300_000), trace_id=""))

    assert not exemplars.copy()


def test_the_last_exemplar_of_a_bucket_is_kept_and_a_copy_does_not_change() -> None:
    """Each of a request's waits may leave one; a page does not change while it is rendered."""
    exemplars = ExemplarStore()
    for n in range(1000):
        exemplars.note(trace_of(("throttle", 300_000 + n), ("purgatory", 1), trace_id=f"{n:032x}"))

    (kept,) = exemplars.copy()["Produce", "throttle"].values()
    assert kept.trace_id == f"{999:032x}"
    assert list(exemplars.copy()["Produce", "purgatory"]) == [0]

    exemplars = ExemplarStore()
    exemplars.note(trace_of(("throttle", 300_000)))
    copy = exemplars.copy()["Produce", "throttle"]
    exemplars.note(trace_of(("throttle", 3)))

    assert len(copy) == 1
