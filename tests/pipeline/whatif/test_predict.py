"""Predictions for the clients of a table: buckets, boots, instances, kinds of limits, and flags."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.whatif.demand import MAX_CLIENTS_OF_BUCKET
from pipeline.whatif.predict import Candidate, partition_columns, predict
from pipeline.whatif.results import RESULT
from policies.quota.config import QuotaLine
from tests.support.telemetry.usage_rows import START_MS, client_rows, usage_row

Rows = list[dict[str, Any]]


def seconds_of(seconds: int, charged: int, **columns: object) -> Rows:
    """Return rows of one client with one connection."""
    given = {"user": "alice", "client_id": "c", "connections": 1} | columns
    return [
        usage_row(
            "entity",
            **(given | {"ts_ms": START_MS + n * 1000, "requests": charged, "charged": charged}),
        )
        for n in range(seconds)
    ]


def table(rows: Rows, candidate: Candidate) -> pa.Table:
    texts = ("instance", "boot", "user", "client_id", "enforcement")
    kinds = {"quota_rate": pa.float64()} | dict.fromkeys(texts, pa.string())
    columns = candidate.columns()
    return pa.table(
        {name: pa.array([r[name] for r in rows], kinds.get(name, pa.int64())) for name in columns}
    )


def predicted(rows: Rows, *lines: QuotaLine, **settings: Any) -> Rows:
    candidate = Candidate(lines, **settings)
    found = list(predict(client_rows(table(rows, candidate)), candidate))
    assert all(each.schema == RESULT for each in found)
    return [row for each in found for row in each.to_pylist()]


def alice(rate: float) -> QuotaLine:
    return QuotaLine(user="alice", request_rate=rate)


def test_each_instance_has_the_whole_quota() -> None:
    """A quota holds in one Sluice: two instances pass twice as much."""
    rows = seconds_of(60, 50, instance="a") + seconds_of(60, 50, instance="b")
    found = predicted(rows, alice(20))
    assert [row["instance"] for row in found] == ["a", "b"]
    for row in found:
        assert row["accepted_per_s"] == pytest.approx(20, rel=0.05)
        assert (row["wanted_per_s"], row["limit"], row["seconds"]) == (50, 20, 60)
        assert row["quota_entity"] == "user=alice"
        assert row["throttled_share"] > 0.9
        assert 0 < row["delay_p50_ms"] <= row["delay_p99_ms"]


def test_each_start_of_a_process_has_new_buckets_and_their_results_are_added() -> None:
    """Two processes of one name, even at the same time, do not share a bucket."""
    rows = seconds_of(60, 20, boot="b1") + seconds_of(60, 20, boot="b2")
    (row,) = predicted(rows, alice(20))
    assert (row["seconds"], row["accepted_per_s"], row["throttled_share"]) == (120, 20, 0)


def test_clients_of_one_user_share_its_quota_and_a_client_id_shares_it_over_users() -> None:
    """By the levels of the policy; a client without a quota has no row."""
    rows = seconds_of(60, 20, client_id="x") + seconds_of(60, 20, client_id="y")
    rows += seconds_of(60, 20, user="bob", client_id="x")
    rows += seconds_of(60, 20, user="carol", client_id="x")
    rows += seconds_of(60, 20, user="carol", client_id="z")
    found = predicted(rows, alice(20), QuotaLine(client_id="x", request_rate=30))
    rates = {(row["user"], row["client_id"]): row["accepted_per_s"] for row in found}
    assert rates.keys() == {("alice", "x"), ("alice", "y"), ("bob", "x"), ("carol", "x")}
    assert rates["alice", "x"] + rates["alice", "y"] == pytest.approx(20, rel=0.05)
    assert rates["alice", "x"] == pytest.approx(rates["alice", "y"], rel=0.05)
    assert rates["bob", "x"] + rates["carol", "x"] == pytest.approx(30, rel=0.05)


def test_all_rows_of_a_bucket_go_to_one_partition() -> None:
    """Partitioned by what all clients of any bucket have in common."""
    pair = QuotaLine(user="<default>", client_id="<default>", request_rate=1)
    client_id = QuotaLine(client_id="<default>", request_rate=1)
    assert partition_columns(Candidate([pair])) == ["instance", "user", "client_id"]
    assert partition_columns(Candidate([alice(1), pair])) == ["instance", "user"]
    assert partition_columns(Candidate([client_id, pair])) == ["instance", "client_id"]
    assert partition_columns(Candidate([client_id, alice(1)])) == ["instance"]


def test_each_kind_of_limit_and_each_factor_has_its_row() -> None:
    """Bytes are limited as requests are; twice the limit delays nothing."""
    rows = seconds_of(60, 10, charged_bytes=10_000, response_bytes=500)
    line = QuotaLine(user="alice", request_rate=8, producer_byte_rate=8_000, consumer_byte_rate=400)
    found = predicted(rows, line, factors=(1.0, 2.0))
    assert [(row["limit_key"], row["factor"], row["limit"]) for row in found] == [
        ("request_rate", 1, 8),
        ("request_rate", 2, 16),
        ("producer_byte_rate", 1, 8_000),
        ("producer_byte_rate", 2, 16_000),
        ("consumer_byte_rate", 1, 400),
        ("consumer_byte_rate", 2, 800),
    ]
    for row in found:
        expected = row["limit"] if row["factor"] == 1 else row["wanted_per_s"]
        assert row["accepted_per_s"] == pytest.approx(expected, rel=0.05)
        assert (row["throttled_share"] > 0) == (row["factor"] == 1)


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_bytes_of_replies_without_a_request_in_their_second_are_of_one_request(
    enforcement: str,
) -> None:
    """A consumer that waits for its Fetch: the request is in one second, the reply in the next one."""
    rows = seconds_of(60, 0, response_bytes=50_000)
    line = QuotaLine(user="alice", consumer_byte_rate=20_000)
    (row,) = predicted(rows, line, enforcement=enforcement)
    assert row["accepted_per_s"] == pytest.approx(
        20_000, rel=0.3
    )  # and ten seconds at once under `channel`
    assert 20 <= row["requests"] <= 60
    assert 0 < row["throttled_share"] <= 1


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_many_clients_of_one_bucket_are_simulated_together(enforcement: str) -> None:
    """All have rows, and together they get no more than the limit, and what they want is all there."""
    clients = 3 * MAX_CLIENTS_OF_BUCKET
    rows = [row for n in range(clients) for row in seconds_of(30, 1 + n % 3, client_id=f"c{n:03}")]
    found = predicted(rows, alice(40), enforcement=enforcement)
    assert len(found) == clients
    assert sum(row["wanted_per_s"] for row in found) == pytest.approx(2 * clients)
    together = sum(row["accepted_per_s"] for row in found)
    if enforcement == "entity":
        assert 40 <= together <= 40 * 1.07  # a burst of two seconds


def test_a_client_with_more_connections_than_the_limit_escapes_the_channels_rule() -> None:
    """Named with the reason; under `entity` it is held to the limit."""
    rows = seconds_of(60, 500, connections=50)
    (row,) = predicted(rows, alice(10), enforcement="channel")
    assert row["flag"] == "unenforceable"
    assert row["reason"].startswith("50 connections and a limit of 10: each connection may send")
    assert row["accepted_per_s"] > 40
    (row,) = predicted(rows, alice(10), enforcement="entity")
    assert row["flag"] == ""
    assert row["accepted_per_s"] == pytest.approx(10, rel=0.05)


def test_a_client_that_reconnects_escapes_the_channels_rule() -> None:
    """One request in three opens a connection."""
    rows = seconds_of(60, 20, exempt=10)
    (row,) = predicted(rows, alice(10), enforcement="channel")
    assert row["flag"] == "reconnects"
    assert row["reason"].startswith("33 % of its requests open a connection")


def test_a_client_that_was_blocked_all_the_time_may_want_more() -> None:
    """Its demand is a guess, and said to be one."""
    recorded = {"blocked_ms": 1000, "enforcement": "entity", "quota_rate": 20.0}
    (row,) = predicted(seconds_of(60, 20, **recorded), alice(40))
    assert row["flag"] == "demand_unknown"
    assert row["accepted_per_s"] == pytest.approx(40, rel=0.05)


def test_no_rows_and_no_matching_quota_give_nothing() -> None:
    """Neither an empty table nor clients without a quota are an error here."""
    assert predicted([], alice(10)) == []
    assert predicted(seconds_of(3, 5, user="bob"), alice(10)) == []
