"""Administration through Sluice: an operator's requests have the same effects and replies as at the brokers."""

import re
import uuid

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaAdminClient

from tests.integration.conftest import Way
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.python_clients import Librdkafka, poll_records
from tests.support.processes.sluice_process import SluiceProcess


def test_topics_are_created_described_widened_and_deleted(way_three: Way) -> None:
    """An admin client gets the same results through Sluice."""
    admin = AdminClient({"bootstrap.servers": way_three.bootstrap})
    name = f"t-{uuid.uuid4()}"
    admin.create_topics([NewTopic(name, 2, 3)])[name].result(timeout=120)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(timeout=120)
    way_three.topics.await_leaders(name, 5)
    partitions = admin.list_topics(name, timeout=120).topics[name].partitions
    assert {number: sorted(partition.replicas) for number, partition in partitions.items()} == {
        number: [1, 2, 3] for number in range(5)
    }
    admin.delete_topics([name])[name].result(timeout=120)


def test_an_altered_topic_config_is_read_back(way_three: Way) -> None:
    """The altered value is described."""
    admin = AdminClient({"bootstrap.servers": way_three.bootstrap})
    topic = way_three.topics.make()
    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(timeout=120)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def read() -> str | None:
        found = admin.describe_configs([asked])[asked].result(timeout=120)
        return found["retention.ms"].value

    # The controller answers before the other brokers have applied the change.
    await_that(lambda: read() == "123456", "the altered value")


def test_group_offsets_are_altered(way_three: Way) -> None:
    """Groups are listed and described, their offsets altered, and the group deleted."""
    admin = AdminClient({"bootstrap.servers": way_three.bootstrap})
    topic, group = way_three.topics.make(), f"g-{uuid.uuid4()}"
    Librdkafka().write(way_three.bootstrap, topic, [b"x"] * 10, 1, "all", "none")
    config = {
        "bootstrap.servers": way_three.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(config)
    consumer.subscribe([topic])
    poll_records(consumer, 10)
    described = admin.describe_consumer_groups([group])[group].result(timeout=120)
    assert [member.assignment.topic_partitions for member in described.members] == [
        [TopicPartition(topic, 0)]
    ]
    consumer.close()
    listed = admin.list_consumer_groups().result(timeout=120)
    assert group in {entry.group_id for entry in listed.valid}
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([wanted])[group].result(timeout=120)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    answer = admin.list_consumer_group_offsets([asked])[group].result(timeout=120)
    assert [place.offset for place in answer.topic_partitions] == [4]
    admin.delete_consumer_groups([group])[group].result(timeout=120)


def test_describe_cluster_names_sluices_addresses(
    sluice_three: SluiceProcess, kafka_three: KafkaCluster
) -> None:
    """Each broker is named at its own port of Sluice, to any client; directly, at its own address."""
    through = {node: f"127.0.0.1:{sluice_three.node_port(node)}" for node in kafka_three.brokers}
    direct = {node: broker.address for node, broker in kafka_three.brokers.items()}
    for bootstrap, expected in ((sluice_three.bootstrap, through), (kafka_three.bootstrap, direct)):
        librdkafka = AdminClient({"bootstrap.servers": bootstrap})  # its answers die with it
        cluster = librdkafka.describe_cluster().result(timeout=120)
        assert {node.id: f"{node.host}:{node.port}" for node in cluster.nodes} == expected
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            brokers = admin.describe_cluster()["brokers"]
        finally:
            admin.close()
        told = {
            broker["node_id" if "node_id" in broker else "broker_id"]: broker for broker in brokers
        }
        assert {node: f"{one['host']}:{one['port']}" for node, one in told.items()} == expected


def test_kafka_metadata_quorum_sees_the_quorum(
    way_three: Way, java: Java, kafka_three: KafkaCluster
) -> None:
    """It names the leader and every observer; through Sluice it gets no broker address."""
    quorum = "org.apache.kafka.tools.MetadataQuorumCommand"
    said = java.run_tool(quorum, "--bootstrap-server", way_three.bootstrap, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", said), said
    assert re.search(r'CurrentObservers:.*"id": 2', said) or re.search(
        r'CurrentObservers:.*"id": 3', said
    ), said
    assert (kafka_three.address_prefix.decode() in said) == way_three.is_direct, said
