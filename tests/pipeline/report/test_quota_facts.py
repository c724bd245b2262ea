"""The figures of quotas from clients, a quota file and predictions."""

from pyspark.sql import SparkSession

from pipeline.recommend.rules import RecordedNeed
from pipeline.report.facts import OTHER, ClientName, ClientUse, EntityNeed, SweepCell
from pipeline.report.quota_facts import level_of, needs_of, present_quotas, sweep_of
from policies.quota.config import QuotaLine

ALICE, BOB = ClientName("alice", "report"), ClientName("bob", "batch")


def use(
    client: ClientName, entity: str | None, rate: float | None, requests: int = 10
) -> ClientUse:
    """Return a client with this quota."""
    return ClientUse(client, requests, requests, 0, 0, 0, entity, rate)


def test_present_quotas_are_read_back_from_the_rows() -> None:
    """A quota of a user, of a client id or of both; clients that share one give one line."""
    clients = [
        use(ALICE, "user=alice", 80.0),
        use(ClientName("alice", "etl"), "user=alice", 80.0),
        use(ClientName("bob", "batch"), "user=bob,client-id=batch", 5.0),
        use(ClientName("eve", "app"), "client-id=app", 7.0),
        use(ClientName("a,client-id=b", "c"), "user=a,client-id=b", 9.0),
        use(ClientName("dave", "x"), None, None),
    ]

    assert present_quotas(clients) == [
        QuotaLine(user="alice", request_rate=80.0),
        QuotaLine(user="bob", client_id="batch", request_rate=5.0),
        QuotaLine(client_id="app", request_rate=7.0),
        QuotaLine(user="a,client-id=b", request_rate=9.0),
    ]


def need(user: str | None, client_id: str | None) -> RecordedNeed:
    """Return a need of 100 requests/s."""
    return RecordedNeed(user, client_id, 1, 100.0, 100.0, 12.0, 120.0, 50, 1, 1.0)


def test_needs_stand_beside_the_quota_in_force() -> None:
    """Of the entity itself, else of its user or its client id; without one there is none."""
    present = [
        QuotaLine(user="alice", request_rate=80.0),
        QuotaLine(user="bob", client_id="etl", request_rate=9.0),
        QuotaLine(client_id="app", request_rate=7.0),
    ]
    needs = [
        need("alice", "x"),
        need("bob", "etl"),
        need("eve", "app"),
        need(None, "app"),
        need("bob", None),
    ]

    found = needs_of(needs, present, lambda each: 110.0 if each.user else None)

    assert found[0] == EntityNeed("alice / x", ("alice", "x"), 12.0, 100.0, 80.0, 110.0)
    assert [each.quota for each in found] == [80.0, 9.0, 7.0, 7.0, None]
    assert [each.name for each in found[3:]] == ["app", "bob"]
    assert found[3].recommended is None


def test_needs_are_those_of_the_entities_that_have_quotas() -> None:
    """Without a quota they are those of users, if clients authenticate."""
    user, both, client_id = (
        QuotaLine(user="a", request_rate=1.0),
        QuotaLine(user="a", client_id="b", request_rate=1.0),
        QuotaLine(client_id="b", request_rate=1.0),
    )
    one, several = [use(ALICE, None, None)], [use(ALICE, None, None), use(BOB, None, None)]

    assert level_of([user], one) == "user"
    assert level_of([client_id, client_id], several) == "client_id"
    assert level_of([both], one) == level_of([user, client_id], one) == "both"
    assert (level_of([], one), level_of([], several)) == ("client_id", "user")


def test_predictions_of_instances_are_added(spark: SparkSession) -> None:
    """Requests are added; limits of bytes are no part of the curve; clients that are not shown are one."""
    row = {
        "user": "alice", "client_id": "report", "limit_key": "request_rate", "factor": 0.5,
        "limit": 40.0, "seconds": 10.0, "wanted_per_s": 12.0, "accepted_per_s": 10.0,
        "requests": 100.0, "throttled_share": 0.25,
    }  # fmt: skip
    rows = [row, row, row | {"limit_key": "producer_byte_rate"}, row | {"user": "eve"}]
    names = list(row)
    predictions = spark.createDataFrame(
        [tuple(each[name] for name in names) for each in rows], names
    )

    cells = sweep_of(predictions, [ALICE])

    assert cells == (
        SweepCell(ClientName("", OTHER), 0.5, 120, 100, 25, 40.0),
        SweepCell(ALICE, 0.5, 240, 200, 50, 40.0),
    )
