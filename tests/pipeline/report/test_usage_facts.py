"""The figures of traffic and throttling from made-up rows of the family `entity`."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.report.facts import OTHER, ClientName
from pipeline.report.usage_facts import (
    MAX_CLIENTS,
    bin_length_ms,
    clients_of,
    of_clients,
    scope_of,
    throttling_of,
    traffic_of,
)
from pipeline.rollups import unrolled
from tests.support.pipeline.report_facts import empty_facts
from tests.support.telemetry.usage_rows import START_MS, frame, usage_row

ALICE, BOB = ClientName("alice", "report"), ClientName("bob", "batch")
LIMIT = {"enforcement": "entity", "quota_entity": "user=alice", "quota_rate": 80.0}


def row(second: int, client: ClientName, requests: int, **more: object) -> dict[str, object]:
    """Return a second of one client in which all requests were charged."""
    used = {"requests": requests, "charged": requests, "ts_ms": START_MS + second * 1000}
    return usage_row("entity", user=client.user, client_id=client.client_id, **(used | more))


@pytest.fixture(scope="module")
def entity(spark: SparkSession) -> DataFrame:
    """Ten seconds: alice is throttled in the first half, seven others send little, two instances."""
    throttled = {"throttled": 4, "throttle_ms": 840, "throttle_ms_max": 400}
    rows = [row(n, ALICE, 10, **LIMIT, **(throttled if n < 5 else {})) for n in range(9)]
    rows.append(row(9, ALICE, 10))  # its quota was removed
    rows += [row(n, BOB, 20, instance="pod-2") for n in range(0, 10, 2)]
    rows += [row(3, ClientName(f"user-{n}", "app"), 1) for n in range(7)]
    return unrolled("entity", frame(spark, "entity", rows)).persist()


def test_the_scope_is_the_sum_of_all_rows(entity: DataFrame) -> None:
    """Also of clients that no list names."""
    scope = scope_of(entity, "file:///t", "now")

    assert (scope.start_ms, scope.end_ms) == (START_MS, START_MS + 10_000)
    assert (scope.instances, scope.clients) == (2, 9)
    assert (scope.requests, scope.charged, scope.throttled) == (207, 207, 20)
    assert scope.throttle_ms_max == 400


def test_clients_have_their_sums_and_their_last_quota(entity: DataFrame) -> None:
    """A quota that was removed is still told, because the delays came from it."""
    clients = {each.client: each for each in clients_of(entity)}

    alice = clients[ALICE]
    assert (alice.requests, alice.throttled, alice.throttle_ms) == (100, 20, 4200)
    assert (alice.quota_entity, alice.quota_rate) == ("user=alice", 80.0)
    assert clients[BOB].quota_rate is None
    assert len(clients) == 9


def test_traffic_names_the_busiest_users(entity: DataFrame) -> None:
    """The rest is one name, every name has a bin at each time, and the sum is that of the rows."""
    scope = scope_of(entity, "", "")
    bins = traffic_of(entity, scope)

    names = {each.name for each in bins}
    assert {"alice", "bob", OTHER} < names
    assert len(names) == 5
    assert len(bins) == 10 * 5
    assert sum(each.requests_per_s for each in bins) == pytest.approx(207)
    assert [each.requests_per_s for each in bins if each.name == "bob"] == [20, 0] * 5


def test_traffic_of_one_user_is_by_client_id(entity: DataFrame) -> None:
    """Without authentication all clients have the same user, which would say nothing."""
    only = entity.where("user = 'alice'")

    assert {each.name for each in traffic_of(only, scope_of(only, "", ""))} == {"report"}
    assert traffic_of(only, empty_facts().scope._replace(end_ms=START_MS)) == ()


def test_throttling_is_told_by_time(entity: DataFrame) -> None:
    """Only of clients that were throttled, and only when they were."""
    bins = throttling_of(entity, scope_of(entity, "", ""), clients_of(entity))

    assert [(each.at_ms - START_MS, each.client) for each in bins] == [
        (n * 1000, ALICE) for n in range(5)
    ]
    assert {each.share for each in bins} == {0.4}
    assert throttling_of(entity, scope_of(entity, "", ""), ()) == ()


def test_bins_have_a_round_length() -> None:
    """The shortest of which there are not too many; beyond the round lengths the time is divided."""
    scope = empty_facts().scope

    for seconds, step_s in ((1, 1), (150, 1), (151, 2), (86_400, 600)):
        found = bin_length_ms(scope._replace(end_ms=scope.start_ms + seconds * 1000), 150)
        assert found == step_s * 1000
    assert bin_length_ms(scope._replace(end_ms=scope.start_ms + 10**12), 100) * 100 >= 10**12


def test_a_million_client_ids_do_not_come_to_the_driver(spark: SparkSession) -> None:
    """Lists are cut in Spark: with most requests, and with most throttled ones."""
    many = spark.range(20_000).selectExpr(
        *("'u' as user", "concat('c', id) as client_id", "0L as throttle_ms", "0L as throttle_ms_max"),
        *("id as requests", "id as charged", "20000 - id as throttled", f"{START_MS}L as end_ms"),
        *("cast(null as string) as quota_entity", "cast(null as double) as quota_rate"),
        "cast(null as string) as enforcement",
    )  # fmt: skip

    clients = clients_of(many)

    assert len(clients) == 2 * MAX_CLIENTS
    assert max(each.requests for each in clients) == 19_999
    assert max(each.throttled for each in clients) == 20_000
    names = [each.client for each in clients[:3]]
    assert of_clients(many, names).count() == 3
