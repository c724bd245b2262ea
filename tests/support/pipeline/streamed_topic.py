"""The topic of Sluice's rows, for the streaming job: rows of its own, and the wait for those of Sluice."""

import json
import time

from confluent_kafka import Producer

from tests.support.kafka.counting_client import Counts
from tests.support.kafka.topics import Topics
from tests.support.telemetry.usage_rows import Row, numbered, usage_row


def publish(bootstrap: str, topic: str, rows: list[Row]) -> None:
    """Produce rows as Sluice does: the line of the log as the value."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "feeder", "linger.ms": 50})
    for row in rows:
        producer.produce(topic, json.dumps(row, separators=(",", ":")))
        producer.poll(0)
    assert producer.flush(60) == 0


def row_that_ends_all_minutes() -> Row:
    """Return a row of the near future, with which all minutes until now are over; waits for a moment of such a row.

    It may be at most a minute ahead, so the present minute must have begun some seconds ago.
    """
    while time.time() % 60 < 3:
        time.sleep(0.1)
    at_ms = (int(time.time()) + 59) * 1000
    (row,) = numbered([usage_row("entity", instance="flush", ts_ms=at_ms)])
    return row


def await_rows(topics: Topics, topic: str, counts: Counts) -> None:
    """Wait until Sluice has published all that the clients counted."""
    give_up = time.monotonic() + 60
    wanted = counts.clients()["counted"]["requests"]
    published = 0
    while published < wanted:
        assert time.monotonic() < give_up, f"{published} of {wanted} requests are published"
        lines = [json.loads(read.value) for read in topics.contents(topic)]
        published = sum(
            row["requests"]
            for row in lines
            if row["family"] == "entity" and row["client_id"] == "counted"
        )
