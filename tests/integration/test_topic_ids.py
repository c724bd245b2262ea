"""A topic that a policy denies is not written to by its id either, with a real Kafka and Java's producer."""

from pathlib import Path

import pytest

from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, acked_values, config_file, events
from tests.support.processes.sluice_process import SluiceProcess


@pytest.mark.slow
def test_java_cannot_write_to_a_denied_topic_by_its_id(
    kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """Its Produce v13 carries ids; the policy gets their names. Other topics are written as before."""
    topics = Topics(kafka_one.bootstrap, 1)
    denied, allowed = topics.make(), topics.make()
    # Visible, so that the client learns its id.
    rule = {"effect": "deny", "topics": [denied], "access": ["write"]}
    config = {"rules": [rule], "default": "allow"}
    settings: dict[str, object] = {"policies": [{"use": "topics", "config": config}]}
    java = kafka_java()
    properties = config_file(tmp_path / "c.properties", {"client.id": "by-id"})
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice:

        def write(topic: str) -> str:
            where = ("--bootstrap-server", sluice.bootstrap, "--topic", topic)
            return java.run_tool(
                PRODUCER, *where, "--max-messages", "20", "--command-config", properties
            )

        refused, written = write(denied), write(allowed)

    errors = events(refused, "producer_send_error")
    assert len(errors) == 20
    assert {error["exception"].rpartition(".")[2] for error in errors} == {
        "TopicAuthorizationException"
    }
    assert len(acked_values(written)) == 20
    assert [len(topics.contents(topic)) for topic in (denied, allowed)] == [0, 20]
