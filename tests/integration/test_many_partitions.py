"""A consumer of more partitions than one step judges: it reads them through the policies, or is told why not."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.python_clients import Librdkafka
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = pytest.mark.slow

PARTITIONS: Final = 1_050
DEADLINE_SECONDS: Final = 120
VALUES: Final = [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def topic(kafka_one: KafkaCluster) -> Iterator[str]:
    """A topic of many partitions with some records."""
    name = f"many-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": kafka_one.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(DEADLINE_SECONDS)
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = admin.list_topics(timeout=30).topics.get(name)
        led = [] if found is None else [each.leader >= 0 for each in found.partitions.values()]
        if len(led) == PARTITIONS and all(led):
            break
        time.sleep(0.5)
    Librdkafka().write(kafka_one.bootstrap, name, VALUES, 4, "1", "none")
    yield name
    admin.delete_topics([name])[name].result(DEADLINE_SECONDS)


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_fetch_of_many_partitions_passes_or_is_refused_in_words(
    access: str, kafka_one: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """Each request names all partitions; the connection is not cut, so no client reconnects for ever."""
    every = {"*": [access]}  # either may see the topic
    rules = [{"who": ["ANONYMOUS"], "topics": every, "groups": {"*": ["all"]}}]
    policies = [{"use": "access", "config": {"rules": rules}}]
    variables = {"SLUICE_POLICIES": json.dumps(policies)}
    with SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice:
        settings = {
            "bootstrap.servers": sluice.bootstrap,
            "group.id": f"g-{uuid.uuid4()}",
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        read: list[bytes] = []
        errors: set[int] = set()
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end and len(read) < len(VALUES) and not errors:
            for message in consumer.consume(100, 1.0):
                if message.error() is None:
                    read.append(message.value())
                else:
                    errors.add(message.error().code())
        consumer.close()
        closed = sluice.log.read_text().count("client_protocol")
    assert closed == 0
    if access == "read":
        assert sorted(read) == sorted(VALUES)
    else:
        assert errors == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
