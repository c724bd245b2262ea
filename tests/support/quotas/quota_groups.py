"""Consumer groups under a quota: two members each, kafka-python's classic group and librdkafka's of KIP-848.

The members poll all the time, so that fetches use the quota that heartbeats leave.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.kafka_sasl import PLAIN

MEMBERS: Final = 2
HEARTBEAT_MS: Final = 500


@dataclass(slots=True)
class Member:
    """One consumer in a thread of its own, from entering to leaving; `client_id` is its group's user's name."""

    bootstrap: str
    user: str
    password: str
    topic: str
    consumed: int = 0
    errors: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=self.user, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join(60)
        assert not self._thread.is_alive(), f"a member of {self.user} does not end"

    def _run(self) -> None:
        try:
            self.consume(self._ending.is_set)
        except Exception as error:  # noqa: BLE001 - told to the test, which is another thread
            self.errors.append(repr(error))

    def consume(self, ended: Callable[[], bool]) -> None:
        """Poll until it has ended."""
        raise NotImplementedError


class KafkaPythonMember(Member):
    """kafka-python; it honours throttle_time_ms."""

    def consume(self, ended: Callable[[], bool]) -> None:
        logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of each throttled response
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            client_id=self.user,
            group_id=self.user,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=10_000,
            **ClientSecurity(PLAIN, self.user, self.password).kafka_python(),
        )
        try:
            consumer.partitions_for_topic(self.topic)  # known before it joins: see test_groups
            while not ended():
                batches = consumer.poll(timeout_ms=200).values()
                self.consumed += sum(map(len, batches))
        finally:
            consumer.close()


class LibrdkafkaMember(Member):
    """librdkafka: it does not honour throttle_time_ms."""

    def consume(self, ended: Callable[[], bool]) -> None:
        def on_error(error: KafkaError) -> None:
            self.errors.append(str(error))

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": self.user,
                "group.id": self.user,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "error_cb": on_error,
                **ClientSecurity(PLAIN, self.user, self.password).librdkafka(),
            }
        )
        try:
            consumer.subscribe([self.topic])
            while not ended():
                for message in consumer.consume(100, timeout=0.2):
                    if (error := message.error()) is None:
                        self.consumed += 1
                    else:
                        self.errors.append(str(error))
        finally:
            consumer.close()


class Feeder:
    """Writes to every partition of some topics, straight at the broker, `rate` records a second each, while entered."""

    def __init__(self, bootstrap: str, topics: list[str], partitions: int, rate: float) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._places = [(topic, part) for topic in topics for part in range(partitions)]
        self._pause_s = 1 / rate
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            for topic, partition in self._places:
                self._producer.produce(topic, b"food", partition=partition)
            self._producer.poll(0)
            due += self._pause_s
            self._ending.wait(max(0.0, due - time.monotonic()))
        self._producer.flush(30)
