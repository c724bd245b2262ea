"""The figures of traces."""

from pyspark.sql import SparkSession

from pipeline.report.facts import ClientName, ClientUse, TracedRequest
from pipeline.report.usage_facts import slowest_of, with_limits

ALICE, BOB = ClientName("alice", "report"), ClientName("bob", "batch")


def test_a_slow_request_has_its_parts() -> None:
    """Parts that did not happen take no time; an unknown user is empty."""
    row = {"trace_id": "ab" * 16, "user": None, "client_id": "c", "api": "Fetch", "total_ms": 9.5,
           "throttle_ms": 8.0, "purgatory_ms": None, "memory_ms": 0.0, "upstream_ms": 1.5, "mute_ms": 4.0}  # fmt: skip

    assert slowest_of([row]) == (
        TracedRequest("ab" * 16, ClientName("", "c"), "Fetch", 9.5, 8.0, 0.0, 0.0, 1.5, 4.0),
    )


def test_the_limit_of_most_delays_is_named(spark: SparkSession) -> None:
    """Of each client by itself; a client without traced delays keeps what is known of it."""
    rows = [("alice", "report", "producer_byte_rate")] * 3 + [("alice", "report", "request_rate")]
    rows += [("alice", "report", None)] * 9
    requests = spark.createDataFrame(rows, "user string, client_id string, quota_name string")
    clients = (ClientUse(ALICE, 9, 9, 4, 40, 10), ClientUse(BOB, 9, 9, 4, 40, 10))

    named = with_limits(clients, requests)

    assert [each.limit for each in named] == ["producer_byte_rate", None]
    assert with_limits((), requests) == ()
