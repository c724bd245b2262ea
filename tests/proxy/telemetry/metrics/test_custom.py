"""The metrics of policies on the page and in the push."""

from opentelemetry.sdk.resources import Resource
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from policies.chain import Entry
from policies.testing import BenchHost, PolicyBench
from proxy.telemetry.metrics.custom import custom_metrics
from proxy.telemetry.metrics.exposition import render
from proxy.telemetry.metrics.otlp_metrics import metrics_data
from tests.support.plugins.tool_user import ToolUser


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
