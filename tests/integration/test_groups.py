"""Consumer groups, classic and KIP-848: members share a topic, leave, and resume at the group's commit."""

import time
import uuid
from collections.abc import Callable
from typing import Protocol

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from tests.integration.conftest import Way
from tests.support.kafka.one_kafka import since
from tests.support.kafka.python_clients import Librdkafka, read_of

PARTITIONS = 4
TIMEOUT_SECONDS = 240


class Member(Protocol):
    """One consumer of a group."""

    def poll(self) -> list[bytes]:
        """Return the values that arrive within a moment."""
        ...

    def partitions(self) -> set[int]:
        """Return its present assignment."""
        ...

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each partition that is assigned to it."""
        ...

    def leave(self) -> None:
        """Commit the read offsets and leave the group."""
        ...


class LibrdkafkaMember:
    """A librdkafka consumer, of either group protocol."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            config["heartbeat.interval.ms"] = 500
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        found = []
        for message in self._consumer.consume(100, timeout=0.1):
            assert message.error() is None, message.error()
            found.append(read_of(message).value)
        return found

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def positions(self) -> dict[int, int]:
        places = self._consumer.position(self._consumer.assignment())
        return {place.partition: place.offset for place in places}

    def leave(self) -> None:
        self._consumer.commit(asynchronous=False)
        self._consumer.close()


class KafkaPythonMember:
    """A kafka-python consumer."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        assert protocol == "classic"
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )
        # Else it may join first, and join again when the partitions are known: if that answer comes between two polls,
        # kafka-python 3.0 never takes it up, and sends no more heartbeats.
        assert self._consumer.partitions_for_topic(topic)

    def poll(self) -> list[bytes]:
        batches = self._consumer.poll(timeout_ms=100).values()
        return [record.value for records in batches for record in records]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def positions(self) -> dict[int, int]:
        places = self._consumer.assignment()
        return {place.partition: self._consumer.position(place) for place in places}

    def leave(self) -> None:
        self._consumer.commit()
        self._consumer.close()


def _until(done: Callable[[], bool], members: list[Member]) -> list[bytes]:
    """Poll the members in turn until `done`; return the values they read."""
    found: list[bytes] = []
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        assert time.monotonic() < give_up, [member.partitions() for member in members]
        for member in members:
            found += member.poll()
    return found


@pytest.mark.parametrize(
    ("make", "protocol"),
    [
        pytest.param(KafkaPythonMember, "classic", id="kafka-python-classic"),
        pytest.param(LibrdkafkaMember, "classic", id="librdkafka-classic"),
        pytest.param(LibrdkafkaMember, "consumer", id="librdkafka-kip848", marks=since(4, 0)),
    ],
)
def test_a_group_shares_leaves_and_resumes(
    make: Callable[[str, str, str, str], Member], protocol: str, way_one: Way
) -> None:
    """Two members split the partitions and read each record; the one that stays takes over all from the commit."""
    topic, group = way_one.topics.make(PARTITIONS), f"g-{uuid.uuid4()}"
    first = make(way_one.bootstrap, group, topic, protocol)
    second = make(way_one.bootstrap, group, topic, protocol)
    members = [first, second]
    everything = set(range(PARTITIONS))
    _until(
        lambda: (
            len(first.partitions()) == 2 and first.partitions() | second.partitions() == everything
        ),
        members,
    )

    values = [b"%d" % number for number in range(200)]
    Librdkafka().write(way_one.bootstrap, topic, values, PARTITIONS, "all", "none")
    found: list[bytes] = []
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while len(found) < len(values):
        assert time.monotonic() < give_up, f"{len(found)} of {len(values)}"
        for member in members:
            found += member.poll()
    assert sorted(found) == sorted(values)

    first.leave()
    more = [b"more %d" % number for number in range(40)]
    Librdkafka().write(way_one.bootstrap, topic, more, PARTITIONS, "all", "none")
    # The second has not committed: what it has read may come again with each rebalance, here as without Sluice.
    at_end = dict.fromkeys(range(PARTITIONS), 60)
    found = _until(lambda: second.positions() == at_end, [second])
    assert set(more) <= set(found) <= set(more) | set(values)
    second.leave()
    assert _committed(way_one, group, topic) == at_end


def _committed(way: Way, group: str, topic: str) -> dict[int, int]:
    """Return the group's offsets from the broker itself."""
    admin = AdminClient({"bootstrap.servers": way.topics.bootstrap})
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
    answer = asked[group].result(timeout=120)
    return {place.partition: place.offset for place in answer.topic_partitions}
