"""All three brokers are restarted one after another under load: no record is lost or repeated, and order is kept."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.conftest import ONLY_THROUGH_SLUICE, Way
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import GroupReader, LoadProducer, await_that
from tests.support.kafka.verifiable import IDEMPOTENT, PRODUCER, acked_values, config_file

pytestmark = [pytest.mark.slow, ONLY_THROUGH_SLUICE]

PARTITIONS = 6


def test_clients_survive_a_rolling_restart_under_load(
    way_three: Way, kafka_three: KafkaCluster, java: Java, tmp_path: Path
) -> None:
    """A librdkafka and a Java producer and both kinds of group continue through the restart of every broker."""
    topic, java_topic = way_three.topics.make(PARTITIONS), way_three.topics.make(PARTITIONS)
    producer = LoadProducer(way_three.bootstrap, topic, PARTITIONS)
    readers = [
        GroupReader(way_three.bootstrap, topic, f"g-{uuid.uuid4()}", protocol)
        for protocol in ("classic", "consumer")
    ]
    said = tmp_path / "producer.out"
    java_producer = java.start_tool(
        PRODUCER,
        *("--bootstrap-server", way_three.bootstrap, "--topic", java_topic, "--throughput", "200"),
        *("--command-config", config_file(tmp_path / "producer.properties", IDEMPOTENT)),
        output=said,
    )
    try:
        with readers[0], readers[1]:
            with producer:
                await_that(lambda: "producer_send_success" in said.read_text(), "the Java producer")
                for node_id in (2, 3, 1):  # the controller last
                    kafka_three.stop_broker(node_id)
                    if node_id != 1:  # without a controller no leader can be elected
                        producer.await_acks(400)
                    kafka_three.start_broker(node_id)
                    await_that(lambda: _in_sync(kafka_three), "every replica in sync")
                    producer.await_acks(400)
            for reader in readers:
                reader.await_values(set(producer.acked))
        java_producer.terminate()
        java_producer.wait(60)
    finally:
        java_producer.kill()
        java_producer.wait()
    producer.reckon(way_three.topics.contents(topic))
    acked = acked_values(said.read_text())
    stored = [record.value.decode() for record in way_three.topics.contents(java_topic)]
    assert len(stored) == len(set(stored)), "there twice"
    assert set(acked) <= set(stored), "lost"
    assert len(acked) > 1000


def _in_sync(cluster: KafkaCluster) -> bool:
    topics = (
        AdminClient({"bootstrap.servers": cluster.bootstrap})
        .list_topics(timeout=120)
        .topics.values()
    )
    return all(
        len(one.isrs) == cluster.size for topic in topics for one in topic.partitions.values()
    )
