"""kafka-python and librdkafka with one common interface, so that a test is written once for both.

Both write a list of values to partitions that the test names, and read a topic from its beginning without a group.
`settings` are a library's own words. Their exceptions are not caught: a test fails on the first error.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

TIMEOUT_SECONDS: Final = 120
# acks below all cannot be idempotent; both clients require that this is stated.
ACKS: Final = ("0", "1", "all")
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Read:
    """A record as it was read."""

    partition: int
    offset: int
    value: bytes


class Client(Protocol):
    """The calls that both clients have."""

    def write(
        self,
        bootstrap: str,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        acks: str,
        compression: str,
        **settings: Any,
    ) -> None:
        """Value i goes to partition i % partitions; returns when all are sent (and acked, if acks say so)."""
        ...

    def read(
        self, bootstrap: str, topic: str, partitions: int, count: int, **settings: Any
    ) -> list[Read]:
        """The first `count` records of the topic; AssertionError when they do not come in time."""
        ...


class KafkaPython:
    """kafka-python."""

    def write(
        self,
        bootstrap: str,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        acks: str,
        compression: str,
        **settings: Any,
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if compression == "none" else compression,
            linger_ms=5,
            **settings,
        )
        try:
            sent = [
                producer.send(topic, value, partition=place % partitions)
                for place, value in enumerate(values)
            ]
            producer.flush(timeout=TIMEOUT_SECONDS)
            for future in sent:
                future.get(timeout=TIMEOUT_SECONDS)
        finally:
            producer.close()

    def read(
        self, bootstrap: str, topic: str, partitions: int, count: int, **settings: Any
    ) -> list[Read]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None, **settings
        )
        try:
            places = [PythonTopicPartition(topic, partition) for partition in range(partitions)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            found: list[Read] = []
            give_up = time.monotonic() + TIMEOUT_SECONDS
            while len(found) < count and time.monotonic() < give_up:
                for records in consumer.poll(timeout_ms=500).values():
                    found += [
                        Read(record.partition, record.offset, record.value) for record in records
                    ]
        finally:
            consumer.close()
        assert len(found) >= count, f"{len(found)} of {count} records"
        return found


class Librdkafka:
    """confluent-kafka."""

    def write(
        self,
        bootstrap: str,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        acks: str,
        compression: str,
        **settings: Any,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "compression.type": compression,
                "linger.ms": 5,
                **settings,
            }
        )
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for place, value in enumerate(values):
            producer.produce(topic, value, partition=place % partitions, on_delivery=on_delivery)
        assert producer.flush(TIMEOUT_SECONDS) == 0, "records were not sent in time"
        assert not failures, failures

    def read(
        self, bootstrap: str, topic: str, partitions: int, count: int, **settings: Any
    ) -> list[Read]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **settings,
            }
        )
        try:
            consumer.assign(
                [TopicPartition(topic, partition, 0) for partition in range(partitions)]
            )
            return poll_records(consumer, count)
        finally:
            consumer.close()


def poll_records(
    consumer: Consumer, count: int, timeout_seconds: float = TIMEOUT_SECONDS
) -> list[Read]:
    """The next `count` records of a librdkafka consumer; AssertionError when they do not come."""
    found: list[Read] = []
    give_up = time.monotonic() + timeout_seconds
    while len(found) < count and time.monotonic() < give_up:
        for message in consumer.consume(count - len(found), timeout=0.2):
            assert message.error() is None, message.error()
            found.append(read_of(message))
    assert len(found) == count, f"{len(found)} of {count} records"
    return found


def read_of(message: Message) -> Read:
    """A message without error as a Read."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return Read(partition, offset, value)


CLIENTS: Final[dict[str, Client]] = {"kafka-python": KafkaPython(), "librdkafka": Librdkafka()}
