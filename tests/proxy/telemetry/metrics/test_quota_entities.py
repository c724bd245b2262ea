"""Quota entities on the page of metrics: off by default, bounded, and each with its figures."""

from policies.quota.sensors import BucketMetrics
from policies.registry import PolicyEntry
from proxy.telemetry.facts import QuotaEntities
from proxy.telemetry.metrics.metrics_observer import MetricsObserver
from proxy.telemetry.metrics.quota_entities import MAX_READ, quota_entities
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.processes.admin_room import roomy
from tests.support.telemetry.metrics_page import FakeFactsSource, hear, read


def page(rows: list[BucketMetrics], most: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples of these rows of the policy `quota`, with so many entities at most."""
    metrics = MetricsObserver(max_quota_entities=most)
    engine = make_engine()
    hear(engine, metrics)
    source = FakeFactsSource()
    source.entities = [QuotaEntities("quota", rows)]
    metrics.attach(engine, source)
    return {name: found for name, found in read(metrics).items() if name.startswith("sluice_quota")}


def bucket(
    client_id: str = "app", avg_ms: float | None = 12.5, max_ms: int | None = 40
) -> BucketMetrics:
    return BucketMetrics("alice", client_id, "request_rate", 100.0, 42.5, avg_ms, max_ms, 0)


def test_an_entity_has_its_rate_limit_and_throttle_times():
    """KIP-124's two metrics of each quota entity, and the limit that they are compared with."""
    found = page([bucket()], 10)
    (labels,) = found["sluice_quota_rate"]
    assert sorted(labels) == sorted(["alice", "app", "quota", "request_rate"])
    assert {name: values[labels] for name, values in found.items() if labels in values} == {
        "sluice_quota_rate": 42.5,
        "sluice_quota_limit": 100.0,
        "sluice_quota_throttle_avg_seconds": 0.0125,
        "sluice_quota_throttle_max_seconds": 0.04,
    }
    assert list(found["sluice_quota_entities_hidden"].values()) == [0]


def test_an_entity_without_throttles_has_no_throttle_time_and_by_default_none_is_shown():
    """As in Kafka, whose sensor has no value then; an entity may be each client id that a client has chosen."""
    assert "sluice_quota_throttle_avg_seconds" not in page([bucket(avg_ms=None, max_ms=None)], 1)

    assert page([bucket()], 0) == {}


def test_their_number_is_bounded_and_the_rest_is_counted():
    """And names of clients are cut, so two may share a series: the first one is shown."""
    rows = [bucket(f"client {n}") for n in range(10)]
    found = page(rows, 3)
    assert len(found["sluice_quota_rate"]) == 3
    assert list(found["sluice_quota_entities_hidden"].values()) == [7]
    assert len(page([bucket("x" * 500 + str(n)) for n in range(5)], 9)["sluice_quota_rate"]) == 1


def test_no_more_than_max_read_are_read():
    """Reading happens on the loop."""
    read_rows = []

    def rows():
        for n in range(10 * MAX_READ):
            read_rows.append(n)
            yield bucket(str(n))

    assert list(quota_entities([QuotaEntities("quota", rows())], 1))
    assert len(read_rows) == MAX_READ


async def test_the_buckets_of_a_quota_policy_reach_the_page():
    """Those of every policy that keeps quotas, by the name of its entry."""
    config = {"quotas": [{"client_id": "tests", "request_rate": 0.01}], "burst_seconds": 1}
    entry = PolicyEntry(use="quota", name="mine", config=config)
    with roomy(policies=(entry,)) as room:
        metrics = MetricsObserver(max_quota_entities=5)
        metrics.attach(room.engine, room.service)
        Wire(room.engine).client(f.heartbeat(1))
        found = read(metrics)
        (labels,) = found["sluice_quota_limit"]
        assert {"mine", "tests", "request_rate"} <= set(labels)
        assert next(iter(found["sluice_quota_rate"].values())) > 0
