"""The usage log of a real Sluice before a real Kafka: the sums of its rows are the clients' own counts."""

import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from pipeline.whatif.capture import recorded as delays_of
from pipeline.whatif.capture import replay
from policies.quota.config import QuotaConfig
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.python_clients import KafkaPython, Librdkafka
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.recorded_run import recorded_run

FAMILIES = ("entity", "api", "instance", "topic")
QUOTA = {"enforcement": "entity", "quotas": [{"user": "ANONYMOUS", "request_rate": 40.0}]}
RECORDS = 700


@dataclass
class Run:
    """The rows of one Sluice, and the counts of its clients."""

    rows: dict[str, list[dict[str, Any]]]
    files: list[bytes]
    published: list[bytes]
    topic: str
    counted: dict[str, int]


@pytest.fixture(scope="module")
def run(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Run three clients, then drain; all rows are read when it is over."""
    folder = tmp_path_factory.mktemp("usage-log")
    copy = topics_one.make()
    topic = topics_one.make(partitions=2)
    values = [b"v" * 200 + b"%d" % number for number in range(RECORDS)]
    with recorded_run(
        kafka_one.bootstrap, folder, families=FAMILIES, SLUICE_USAGE_LOG_TOPIC=copy
    ) as recorded:
        bootstrap = recorded.sluice.bootstrap
        KafkaPython().write(bootstrap, topic, values, 2, "all", "gzip")
        Librdkafka().read(bootstrap, topic, 2, RECORDS)
        produce_by_librdkafka(bootstrap, topics_one.make(partitions=2))
        counted = count_everything(recorded.sluice.port)
    return Run(
        {family: recorded.rows(family) for family in FAMILIES},
        [
            line
            for path in recorded.usage_log.glob("*/dt=*/*.jsonl")
            for line in path.read_bytes().splitlines()
        ],
        [read.value for read in topics_one.contents(copy)],
        topic,
        counted,
    )


def produce_by_librdkafka(bootstrap: str, topic: str) -> None:
    """Produce fifty records as a client called `fifty`, one request each."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "fifty"})
    for number in range(50):
        producer.produce(topic, b"x" * 1000, partition=number % 2)
        producer.flush(30)


def count_everything(port: int) -> dict[str, int]:
    """Return the requests and bytes of three connections of a client called `counted`, over more than two seconds."""
    counted = {"requests": 0, "request_bytes": 0, "response_bytes": 0}

    def ask(sock: socket.socket, requests: list[bytes]) -> None:
        sock.sendall(b"".join(requests))
        for request in requests:
            size = int.from_bytes(receive(sock, 4), "big")
            receive(sock, size)
            counted["requests"] += 1
            counted["request_bytes"] += len(request)
            counted["response_bytes"] += 4 + size

    ends = time.monotonic() + 2.3
    while time.monotonic() < ends:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=120) as sock:
                for turn in range(1, 20):
                    numbers = range(turn * 5, turn * 5 + 5)
                    ask(sock, [f.metadata_request(number, "counted") for number in numbers])
                    ask(sock, [f.heartbeat(number, "counted") for number in numbers])
    return counted


def total(rows: list[dict[str, Any]], column: str, **wanted: str) -> int:
    return sum(
        row[column] for row in rows if all(row[name] == value for name, value in wanted.items())
    )


def test_the_rows_equal_the_clients_counts(run: Run) -> None:
    """To the request and byte, in `entity` and in `api`, for two APIs (one
    of them rewritten); for a real client, at least its known requests.
    """
    counted = run.counted
    assert counted["requests"] > 500
    for family in ("entity", "api"):
        for column, count in counted.items():
            rows = run.rows[family]
            assert total(rows, column, client_id="counted") == count, (family, column)
    api = run.rows["api"]
    assert total(api, "replied", client_id="counted", api="Metadata") == counted["requests"] // 2
    assert total(api, "requests", client_id="fifty", api="Produce") == 50


def test_topic_rows_count_written_and_read_records(run: Run) -> None:
    """By topic name: as many records as were produced (compressed ones, too), and as many as were fetched."""
    assert total(run.rows["topic"], "produce_records", topic=run.topic) == RECORDS
    assert total(run.rows["topic"], "fetch_records", topic=run.topic) == RECORDS
    assert total(run.rows["topic"], "produce_bytes", topic=run.topic) > 0
    assert total(run.rows["topic"], "fetch_bytes", topic=run.topic) > 0


def test_no_row_is_missing(run: Run) -> None:
    """`seq` has no gap, and the process reports no dropped row."""
    for rows in run.rows.values():
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    last = run.rows["instance"][-1]
    assert last["rows_dropped_total"] == last["rows_unpublished_total"] == 0


def test_the_same_rows_are_published_and_the_publisher_has_no_row(run: Run) -> None:
    """The topic holds every line of every file, once each."""
    assert sorted(run.published) == sorted(run.files)
    assert {row["client_id"] for row in run.rows["entity"]}.isdisjoint({"sluice-usage-log"})


def test_a_replayed_capture_gives_the_same_delays(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """Sixteen clients over their quota: a new policy gives every recorded delay again."""
    with recorded_run(
        kafka_one.bootstrap, tmp_path, families=("capture", "entity"), quota=QUOTA
    ) as recorded:
        clients = [
            threading.Thread(target=ask_often, args=(recorded.sluice.port, place))
            for place in range(16)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join(60)

    rows = recorded.rows("capture")
    assert sorted(row["seq"] for row in rows) == list(range(1, 16 * 20 + 1))
    assert any(row["released_ms"] for row in rows)
    assert any(row["delay_ms"] for row in rows)
    assert replay(rows, msgspec.convert(QUOTA, QuotaConfig)) == delays_of(rows)
    assert total(recorded.rows("entity"), "charged") == sum(row["charged"] for row in rows)


def ask_often(port: int, place: int) -> None:
    """Send twenty Metadata requests of a client of its own in groups of four."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        for turn in range(5):
            numbers = range(turn * 4, turn * 4 + 4)
            sock.sendall(b"".join(f.metadata_request(n, f"c{place}") for n in numbers))
            for _ in numbers:
                receive(sock, int.from_bytes(receive(sock, 4), "big"))
