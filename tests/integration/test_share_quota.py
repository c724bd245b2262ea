"""A share group reads no faster than its consumer_byte_rate, as at a Kafka that has the quota itself."""

import json
import uuid
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.one_kafka import since
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import SHARE_CONSUMER, events
from tests.support.processes.sluice_process import SluiceProcess

RECORDS: Final = 120
RECORD_BYTES: Final = 5_000
LEAST_MS: Final = 5_000
"""Half of what each limit below needs for all records, after what it lets pass at once."""


@since(4, 2)
@pytest.mark.parametrize(
    ("enforcement", "limit"),
    [("entity", 50_000), pytest.param("channel", 25_000, marks=pytest.mark.slow)],
)
def test_a_share_group_is_held_to_its_bytes(
    enforcement: str,
    limit: int,
    kafka_one: KafkaCluster,
    topics_one: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """All records come, each once, and the last of them later than without the quota."""
    topic = topics_one.make(1)
    small = {"bootstrap.servers": kafka_one.bootstrap, "batch.size": 2 * RECORD_BYTES}
    producer = Producer(small)
    for number in range(RECORDS):
        producer.produce(topic, b"%d " % number + bytes(RECORD_BYTES))
    assert producer.flush(30) == 0
    quotas = [{"user": "ANONYMOUS", "consumer_byte_rate": limit}]
    policies = [{"use": "quota", "config": {"enforcement": enforcement, "quotas": quotas}}]
    variables = {"SLUICE_POLICIES": json.dumps(policies)}
    with SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice:
        said = java.run_tool(
            SHARE_CONSUMER,
            *("--bootstrap-server", sluice.bootstrap, "--topic", topic),
            *("--group-id", f"s-{uuid.uuid4()}", "--max-messages", str(RECORDS)),
            *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
        )
    consumed = list(events(said, "records_consumed"))
    assert sum(event["count"] for event in consumed) == RECORDS, said[-2000:]
    assert consumed[-1]["timestamp"] - consumed[0]["timestamp"] >= LEAST_MS
