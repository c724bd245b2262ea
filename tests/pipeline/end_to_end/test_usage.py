"""A real Sluice before a real Kafka: the clients' own counts are what its usage log says."""

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.ingest.job import Ingest
from pipeline.tables import TimeRange
from pipeline.usage import read_usage
from tests.support.kafka.counting_client import CountingClient, Counts
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.pipeline.whatif_figures import write_usage
from tests.support.processes.recorded_run import RecordedRun, recorded_run

pytestmark = pytest.mark.slow

QUOTA = {"enforcement": "channel", "quotas": [{"client_id": "noisy", "request_rate": 10.0}]}


COUNTED = ("requests", "request_bytes", "response_bytes")
TOPIC = (
    *("produce_requests", "produce_bytes", "produce_records"),
    *("fetch_replies", "fetch_bytes", "fetch_records"),
)


@pytest.fixture(scope="module")
def run(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RecordedRun, Counts]:
    """Return the run of four clients on two topics, one of them over its quota, and their counts."""
    topics = [topics_one.make(), topics_one.make()]
    counts = Counts()
    folder = tmp_path_factory.mktemp("usage")
    with recorded_run(kafka_one.bootstrap, folder, quota=QUOTA) as recorded:
        port = recorded.sluice.port
        for name in ("writer", "reader"):
            with CountingClient(port, name, counts) as client:
                for place, topic in enumerate(topics):
                    client.produce(topic, records=7 + place, count=20)
                    assert client.fetch(topic, offset=0)
                client.metadata(count=30)
        with CountingClient(port, "noisy", counts) as client:
            for _ in range(
                130
            ):  # one at a time: a reply on a muted connection is no further throttle
                client.heartbeat()
        with CountingClient(port, "quiet", counts) as client:
            client.heartbeat()
    return recorded, counts


def figures(
    spark: SparkSession, tables: Path, by: tuple[str, ...], columns: Iterable[str]
) -> dict[tuple[str, ...], Counter[str]]:
    """Return the usage by these columns: the given columns that are not 0, as clients count."""
    report = read_usage(spark, str(tables), by, TimeRange()).toArrow().to_pylist()
    return {
        tuple(row[name] for name in by): +Counter({name: row[name] for name in columns})
        for row in report
    }


def test_usage_is_what_the_clients_counted(
    spark: SparkSession, run: tuple[RecordedRun, Counts], tmp_path: Path
) -> None:
    """Requests and bytes by client and API, records and bytes by topic, throttles and their time: exactly.

    Nothing is lost, in quarantine or counted twice, and a second `ingest` changes nothing.
    """
    recorded, counts = run
    for _ in range(2):
        summary = Ingest(
            spark, str(recorded.usage_log), str(tmp_path), time.time_ns() // 10**6
        ).run()
        assert (summary.lost_rows, summary.quarantined, summary.duplicates) == ({}, {}, 0)

    clients = figures(
        spark, tmp_path, ("client_id",), ("requests", "request_bytes", "response_bytes")
    )
    assert {name: counted for (name,), counted in clients.items()} == counts.clients()
    assert figures(spark, tmp_path, ("client_id",), ("ended",)) == {
        (name,): Counter(ended=counted["requests"]) for name, counted in counts.clients().items()
    }
    by_api = ("ended", "replied_request_bytes", "replied_response_bytes")
    assert figures(spark, tmp_path, ("client_id", "api"), by_api) == {
        key: Counter(dict(zip(by_api, (counted[name] for name in COUNTED), strict=True)))
        for key, counted in counts.api.items()
    }
    topics = figures(spark, tmp_path, ("topic",), TOPIC)
    assert {name: counted for (name,), counted in topics.items()} == counts.topics
    throttled = figures(spark, tmp_path, ("client_id",), ("throttled",))
    delays = figures(spark, tmp_path, ("client_id",), ("delay_s",))
    report = read_usage(spark, str(tmp_path), ("client_id",), TimeRange()).toArrow().to_pylist()
    ended = {row["client_id"]: row for row in report}
    for name, told in counts.throttles.items():
        assert throttled[name,]["throttled"] == told["throttled"]
        assert delays[name,]["delay_s"] == pytest.approx(told["throttle_ms"] / 1000)
        of_ends = [ended[name][each] or 0 for each in ("throttle_waited", "throttle_s")]
        assert of_ends == [told["throttled"], pytest.approx(told["throttle_ms"] / 1000, rel=0.05)]
    assert counts.throttles["noisy"]["throttled"] > 5
    rows = [
        [name, figure, f"{count:,}", f"{clients[name,][figure]:,}"]
        for name, counted in sorted(counts.clients().items())
        for figure, count in counted.items()
    ]
    rows += [
        [name, "throttled", f"{told['throttled']:,}", f"{throttled[name,]['throttled']:,}"]
        for name, told in sorted(counts.throttles.items())
    ]
    write_usage(rows)
