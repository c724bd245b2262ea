"""The audit log keeps the act that matters, with a real Kafka's own replies."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

NAMES = 400
FLOOD = 150
SECONDS = 30


@pytest.fixture
def audited(kafka_one: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice with an audit log, which refuses to create topics."""
    settings: dict[str, object] = {
        "audit": {"file": str(tmp_path / "audit.jsonl")},
        "policies": [
            {"use": "audit"},
            {"use": "limits", "config": {"forbidden_apis": ["CreateTopics"]}},
        ],
    }
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice:
        yield sluice


def test_a_deletion_is_told_among_failures_and_after_a_flood_of_refusals(
    audited: SluiceProcess, kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """One name of hundreds exists; more refusals than a client has lines come first, in the same second or not."""
    victim = Topics(kafka_one.bootstrap, 1).make()
    admin = AdminClient({"bootstrap.servers": audited.bootstrap})
    flood = [admin.create_topics([NewTopic(f"no-{n}", 1, 1)]) for n in range(FLOOD)]
    names = [f"none-{n}" for n in range(NAMES)]
    names.insert(NAMES // 2, victim)
    deletions = admin.delete_topics(names, operation_timeout=SECONDS)
    deletions[victim].result(SECONDS)
    for made in flood:
        with pytest.raises(KafkaException):
            next(iter(made.values())).result(SECONDS)
    audited.stop()

    lines = [
        json.loads(line) for line in (tmp_path / "audit.jsonl").read_text("utf-8").splitlines()
    ]
    (act,) = [line for line in lines if line.get("api") == "DeleteTopics"]
    assert act["done"] == [{"name": victim}]
    assert act["left_out"]["errors"] == NAMES - len(act["errors"])
    refused = sum(line["event"] == "refused" for line in lines)
    suppressed = sum(line["suppressed"]["refused"] for line in lines if "suppressed" in line)
    assert refused + suppressed == FLOOD
