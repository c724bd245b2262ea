"""Spark reads the rows that Sluice publishes, and writes its alerts, through that Sluice before a real Kafka."""

import json
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.jars import KAFKA, JarsUnavailableError, locked_jars
from tests.support.kafka.counting_client import CountingClient, Counts
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.pipeline import streamed_log
from tests.support.pipeline.streamed_topic import await_rows, publish, row_that_ends_all_minutes
from tests.support.processes.pipeline_process import run_pipeline, run_until
from tests.support.processes.recorded_run import recorded_run

pytestmark = pytest.mark.slow

MINUTES = 10
CLIENT_ID = "spark-of-the-test"


@dataclass
class Run:
    """Two runs of the job: one without end, killed when it has sent the alerts, and one that goes on."""

    output: str
    counts: Counts
    alerts: list[dict[str, object]]
    reader_requests: int
    """The requests of Spark's own clients, as Sluice counted them."""
    said: str


@pytest.fixture(scope="module")
def jars() -> None:
    """Skip where the connector cannot be had."""
    try:
        locked_jars(KAFKA)
    except JarsUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def run(
    jars: None,
    kafka_one: KafkaCluster,
    topics_one: Topics,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Publish made-up rows of last year and true rows of now, then run the job twice."""
    folder = tmp_path_factory.mktemp("stream-kafka")
    rows, alerts = topics_one.make(), topics_one.make()
    config = folder / "client.properties"
    config.write_text(f"client.id={CLIENT_ID}\n")
    counts = Counts()
    with recorded_run(
        kafka_one.bootstrap, folder, families=("entity", "api"), SLUICE_USAGE_LOG_TOPIC=rows
    ) as recorded:
        sluice = recorded.sluice
        publish(sluice.bootstrap, rows, streamed_log.rows(MINUTES)[:-1])
        with CountingClient(sluice.port, "counted", counts) as client:
            client.heartbeat(300)
            client.metadata(50)
        await_rows(topics_one, rows, counts)
        publish(sluice.bootstrap, rows, [row_that_ends_all_minutes()])
        words = (
            "stream", f"kafka:{rows}", folder / "out", "--checkpoint", folder / "checkpoint",
            "--watermark", "1s", "--kafka", sluice.bootstrap, "--kafka-config", config,
            "--alerts-topic", alerts,
        )  # fmt: skip
        log = folder / "first.log"

        def both_are_sent() -> bool:
            time.sleep(0.5)
            return len(contents(topics_one, alerts)) >= 2

        run_until(log, both_are_sent, *words, "--interval", "1s")
        # The first run was killed in any of its batches: the minutes that are over are written with the next row.
        publish(sluice.bootstrap, rows, [row_that_ends_all_minutes()])
        done = run_pipeline(*words, "--once")
        assert done.returncode == 0, done.stderr
        found = contents(topics_one, alerts)
    requests = sum(
        row["requests"] for row in recorded.rows("entity") if row["client_id"] == CLIENT_ID
    )
    said = log.read_text() + done.stderr
    return Run(str(folder / "out"), counts, found, requests, said)


def contents(topics: Topics, topic: str) -> list[dict[str, object]]:
    """Return the alerts in a topic."""
    return [json.loads(read.value) for read in topics.contents(topic)]


def test_the_rollups_of_true_rows_are_the_clients_counts(spark: SparkSession, run: Run) -> None:
    """To the request and byte, from the client through Sluice, its topic, Sluice again, and Spark."""
    minutes = streamed_log.table(spark, run.output, "rollups").where("client_id = 'counted'")
    columns = ("requests", "request_bytes", "response_bytes")
    (found,) = minutes.agg(*(sf.sum(name).alias(name) for name in columns)).collect()

    assert Counter(found.asDict()) == run.counts.clients()["counted"]


def test_the_rollups_of_made_up_rows_are_complete(spark: SparkSession, run: Run) -> None:
    """Each client, instance and minute, and none of them twice after the second run."""
    found = streamed_log.found_sums(spark, run.output)
    wanted = streamed_log.expected_sums(streamed_log.rows(MINUTES))

    assert {key: count for key, count in found.items() if key in wanted} == wanted


def test_alerts_in_the_topic_are_those_of_the_table(spark: SparkSession, run: Run) -> None:
    """Once, or twice where the job was killed: with equal ids, so that a reader drops the second delivery."""
    alerts = streamed_log.table(spark, run.output, "alerts").drop("dt").collect()
    rows = {(row["id"], row["event"]): row.asDict() for row in alerts}

    assert sorted(key[1] for key in rows) == ["cleared", "raised"]
    assert len(alerts) == 2
    assert {(each["id"], each["event"]) for each in run.alerts} == rows.keys()
    for each in run.alerts:
        assert each == rows[each["id"], each["event"]]


def test_spark_talks_to_sluice_with_the_properties_of_the_file(run: Run) -> None:
    """Its requests are counted under the client id of the file."""
    assert run.reader_requests > 10


def test_lines_of_other_families_are_left_out(run: Run) -> None:
    """The topic has them, too, and they are not in quarantine."""
    assert "quarantined" not in run.said
