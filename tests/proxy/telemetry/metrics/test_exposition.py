"""The metrics page in both formats, as the parsers of prometheus_client read it."""

import time

import pytest
from opentelemetry.sdk.resources import Resource
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from policies.chain import Entry
from policies.testing import BenchHost, PolicyBench
from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.collect import custom_metrics
from proxy.telemetry.metrics.exposition import (
    OPENMETRICS,
    PIECE,
    REST_S,
    TEXT,
    render,
    wants_openmetrics,
)
from proxy.telemetry.metrics.families import Distribution, Exemplar, Family, MetricKind, MetricPoint
from proxy.telemetry.metrics.names import ALL
from proxy.telemetry.metrics.otlp_metrics import metrics_data
from tests.support.plugins.tool_user import ToolUser

READERS = {False: read_text, True: read_openmetrics}
BOTH = pytest.mark.parametrize("openmetrics", [False, True], ids=["text", "openmetrics"])
ID = "ab" * 16


def read(families: list[Family], *, openmetrics: bool):
    return list(READERS[openmetrics](render(families, openmetrics=openmetrics).decode()))


def steps(exemplars: dict[int, Exemplar]) -> Family:
    below = tuple(range(len(names.STEP.edges)))
    return Family(names.STEP, [MetricPoint((), Distribution(below, 40, 1.5, exemplars))])


@BOTH
def test_every_metric_of_the_table_can_be_read(*, openmetrics: bool) -> None:
    """A strict parser reads each one, with type, unit and help as in the table."""
    families = []
    for metric in ALL:
        labels = tuple(f"{label} 1" for label in metric.labels)
        below = (1,) * len(metric.edges)
        histogram = metric.kind is MetricKind.HISTOGRAM
        value = Distribution(below, 2, 0.5, {}) if histogram else 1
        families.append(Family(metric, [MetricPoint(labels, value)]))

    found = read(families, openmetrics=openmetrics)

    for metric, family in zip(ALL, found, strict=True):
        assert family.documentation == metric.help
        if openmetrics:
            assert (family.name, family.type) == (metric.family, metric.kind.value)
            assert family.unit == metric.unit
        (first, *_) = family.samples
        assert first.name == metric.name + (
            "_bucket" if metric.kind is MetricKind.HISTOGRAM else ""
        )
        assert set(first.labels) - {"le"} == set(metric.labels)


@BOTH
def test_a_histogram_is_cumulative_and_complete(*, openmetrics: bool) -> None:
    """It has a bucket for each edge in seconds and one without, sum and count; OpenMetrics has exemplars."""
    beyond = len(names.STEP.edges)
    kept = {3: Exemplar(ID, 0.0001, 1.7e9), beyond: Exemplar(ID, 9.5, 1.7e9 + 0.5)}
    (family,) = read([steps(kept)], openmetrics=openmetrics)

    *buckets, total, count = family.samples
    edges = (2**edge / 1e6 for edge in names.STEP.edges)
    assert [float(each.labels["le"]) for each in buckets] == [*edges, float("inf")]
    assert [each.value for each in buckets] == [*range(len(names.STEP.edges)), 40]
    assert (total.name, total.value) == ("sluice_event_loop_step_seconds_sum", 1.5)
    assert (count.name, count.value) == ("sluice_event_loop_step_seconds_count", 40)
    marked = {n: each.exemplar for n, each in enumerate(buckets) if each.exemplar}
    assert {n: (e.labels, e.value, float(e.timestamp)) for n, e in marked.items()} == (
        {n: ({"trace_id": ID}, value_s, at_s) for n, (_, value_s, at_s) in kept.items()}
        if openmetrics
        else {}
    )


def test_a_large_page_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread sleeps after each piece, also within one metric, so the event loop gets the interpreter."""
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    points = [MetricPoint((f"user-{n}",), n) for n in range(2 * PIECE)]

    render([Family(names.USER_RATE, points), Family(names.USER_QUOTA, points)], openmetrics=True)

    assert rests == [REST_S] * 4


def test_a_client_that_accepts_openmetrics_gets_it() -> None:
    """Prometheus accepts it; a browser and curl get plain text."""
    prometheus = f"{OPENMETRICS.partition(';')[0]};version=1.0.0,{TEXT};q=0.5"

    assert wants_openmetrics(prometheus)
    assert not wants_openmetrics("*/*")
    assert not wants_openmetrics("text/plain;version=0.0.4")


def entries() -> list[Entry]:
    """Return two entries of one policy, one of which has seen requests, and one without tools."""
    busy, idle = PolicyBench(ToolUser, {}), BenchHost("idle")
    for api, size_bytes in (("Fetch", 100), ("Fetch", 101), ("Metadata", 5_000)):
        busy.ask(busy.request(api, size_bytes=size_bytes))
    policy = busy.policy
    assert isinstance(policy, ToolUser)
    policy.asked.add(2, 'a "client\'s"\n\\name\ud800')
    idle.counter("asked", "Requests by API.", ["api"]).add(5, "Fetch")
    return [
        Entry("busy", policy, tools=busy.host),
        Entry("idle", policy, tools=idle),
        Entry("bare", policy),
    ]


def test_entries_share_a_family_and_values_are_escaped() -> None:
    """A parser of OpenMetrics reads back each count, the histogram and its sum."""
    page = render(custom_metrics(entries()), openmetrics=True).decode()
    families = {each.name: each for each in text_string_to_metric_families(page)}
    asked = {
        (sample.labels["policy"], sample.labels["api"]): sample.value
        for sample in families["sluice_custom_asked"].samples
    }
    sizes = families["sluice_custom_request_sizes"]
    assert asked == {
        ("busy", "Fetch"): 2,
        ("busy", "Metadata"): 1,
        ("busy", 'a "client\'s"\n\\name\\ud800'): 2,
        ("idle", "Fetch"): 5,
    }
    assert families["sluice_custom_asked"].documentation == "Requests by API."
    assert {
        (sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value
        for sample in sizes.samples
    } == {
        ("bucket", "100.0"): 1,
        ("bucket", "1000.0"): 2,
        ("bucket", "+Inf"): 3,
        ("count", None): 3,
        ("sum", None): 5_201,
    }


def test_the_push_has_the_same_values() -> None:
    """Bounds and counts of each bucket."""
    (resource,) = metrics_data(custom_metrics(entries()), 0, Resource({})).resource_metrics
    found = {each.name: each.data for each in resource.scope_metrics[0].metrics}
    (point,) = found["sluice_custom_request_sizes"].data_points
    assert (point.explicit_bounds, point.bucket_counts, point.sum) == (
        [100, 1000],
        [1, 1, 1],
        5_201,
    )
    assert [each.value for each in found["sluice_custom_asked"].data_points] == [2, 1, 2, 5]


def test_without_values_there_is_no_family() -> None:
    """A page with a HELP and no sample would be noise."""
    assert list(custom_metrics([Entry("new", PolicyBench(ToolUser, {}).policy)])) == []
