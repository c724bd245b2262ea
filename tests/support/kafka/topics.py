"""Topics made for one test, and their content, read from the brokers directly and never through Sluice."""

import itertools
import os
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.support.kafka.load import await_that
from tests.support.kafka.python_clients import Read, read_of

_serial = itertools.count(1)


@dataclass(slots=True)
class Topics:
    """Makes topics on the cluster at `bootstrap` (direct) and reads them to their end."""

    bootstrap: str
    replicas: int
    _admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def make(self, partitions: int = 1, **config: str) -> str:
        """The name of a new topic."""
        name = f"t{os.getpid()}-{next(_serial)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, partitions, self.replicas, config=settings)
        await_that(lambda: self._is_made(new), f"{name} to be made")
        self.await_leaders(name, partitions)
        return name

    def _is_made(self, new: NewTopic) -> bool:
        """Try to make a topic; return False while the controller fences brokers: their heartbeats are late."""
        try:
            self._admin.create_topics([new])[new.topic].result(timeout=120)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    def contents(self, topic: str, *, committed: bool = True) -> list[Read]:
        """Every record of the topic up to its end now, partition after partition, in order within each."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                # The consumer itself says where the end is: control records make offsets no measure of it.
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=120).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            found: dict[int, list[Read]] = {partition: [] for partition in sorted(partitions)}
            unended = set(partitions)
            give_up = time.monotonic() + 60
            while unended:
                assert time.monotonic() < give_up, f"no end of {topic} {unended} within a minute"
                message = consumer.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    record = read_of(message)
                    found[record.partition].append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unended.discard(message.partition())
                else:
                    raise AssertionError(str(error))
        finally:
            consumer.close()
        return [record for records in found.values() for record in records]

    def lead(self, topic: str, partitions: int, leader: int) -> None:
        """Make broker `leader` the leader of every partition: it becomes the preferred one, and is elected."""
        others = [node for node in range(1, self.replicas + 1) if node != leader]
        places = [PythonTopicPartition(topic, partition) for partition in range(partitions)]
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            answers = admin.alter_partition_reassignments(
                {place: [leader, *others] for place in places}
            )
            assert set(answers.values()) == {None}, answers
            give_up = time.monotonic() + 120
            while self._leaders(topic) != {leader}:
                assert time.monotonic() < give_up, f"{topic} is led by {self._leaders(topic)}"
                admin.elect_leaders(0, {topic: list(range(partitions))}, raise_errors=False)
        finally:
            admin.close()

    def _leaders(self, topic: str) -> set[int]:
        described = self._admin.list_topics(topic, timeout=120).topics[topic].partitions.values()
        return {partition.leader for partition in described}

    def await_leaders(self, name: str, partitions: int) -> None:
        """Wait until each partition's leader knows that it is: an acks=0 record sent before would rightly be lost."""
        places = {
            TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)
        }
        give_up = time.monotonic() + 120
        while True:
            try:
                for answer in self._admin.list_offsets(places, request_timeout=120).values():
                    answer.result(timeout=120)
            except KafkaException as error:
                if time.monotonic() > give_up:
                    raise AssertionError(f"no leader for {name}") from error
                time.sleep(0.05)
                self._admin.list_topics(name, timeout=120)  # or it would ask its cache for ever
            else:
                return
