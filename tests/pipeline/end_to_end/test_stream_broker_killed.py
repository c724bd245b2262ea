"""Spark reads the rows' topic while the broker under it is killed and started again: its output is its input."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.jars import KAFKA, JarsUnavailableError, locked_jars
from pipeline.stream.queries import OUTPUTS
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.pipeline import streamed_log
from tests.support.pipeline.streamed_topic import publish
from tests.support.processes.pipeline_process import run_pipeline, run_until

pytestmark = pytest.mark.slow

MINUTES = 10
ROWS_OF_A_BATCH = 250


@pytest.fixture(scope="module")
def jars() -> None:
    """Skip where the connector cannot be had."""
    try:
        locked_jars(KAFKA)
    except JarsUnavailableError as error:
        pytest.skip(str(error))


def read_rows(checkpoint: Path, topic: str) -> list[int]:
    """Return up to which offset each query of the job has read the topic and committed it, the least first."""
    found = []
    for query in checkpoint.glob("*/commits"):
        done = max((int(each.name) for each in query.glob("[0-9]*")), default=None)
        if done is not None:
            offsets = (query.parent / "offsets" / str(done)).read_text()
            found.append(int(json.loads(offsets.splitlines()[-1])[topic]["0"]))
    return sorted(found)


def test_the_output_is_the_input_although_the_broker_was_killed(
    spark: SparkSession, jars: None, kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """The broker dies (SIGKILL) between two batches, comes back on its address, and gets the second half of the rows.
    The job lives on, and each row is counted once.

    The last row comes when that job has ended. Spark writes the minutes that are over in the batch after the row that
    ends them; a job that is killed before this batch writes them with the next row.
    """
    topic = topics_one.make()
    rows = streamed_log.rows(MINUTES)
    half = len(rows) // 2
    publish(kafka_one.bootstrap, topic, rows[:half])
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    words = (
        "stream", f"kafka:{topic}", out, "--checkpoint", checkpoint, "--watermark", "1s",
        "--kafka", kafka_one.bootstrap, "--max-rows", ROWS_OF_A_BATCH,
    )  # fmt: skip
    read_at_kill: list[int] = []

    def everything_is_read() -> bool:
        read = read_rows(checkpoint, topic)
        if read and not read_at_kill:
            kafka_one.kill_broker(1)
            read_at_kill.extend(read_rows(checkpoint, topic))
            kafka_one.start_broker(1)
            publish(kafka_one.bootstrap, topic, rows[half:-1])
        return len(read) == len(OUTPUTS) and read[:1] == [len(rows) - 1]

    log = tmp_path / "stream.log"
    assert not run_until(log, everything_is_read, *words, "--interval", "100ms"), log.read_text()
    assert 0 < read_at_kill[0] < half, "the broker was killed after all was read"
    publish(kafka_one.bootstrap, topic, rows[-1:])
    last = run_pipeline(*words, "--once")
    assert last.returncode == 0, last.stderr

    output = str(out)
    assert streamed_log.found_sums(spark, output) == streamed_log.expected_sums(rows)
    assert list(streamed_log.found_alerts(spark, output)) == streamed_log.EXPECTED_ALERTS
