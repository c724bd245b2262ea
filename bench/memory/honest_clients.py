"""Honest clients: librdkafka producers and consumers that measure how long each small round takes.

Each client has its own partition. A round writes a record, waits for its acknowledgement, and with `reads` until the
client's consumer has read the record. They connect from 127.0.0.1 and run until the block ends.
"""

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.memory.frames import SMALL

PAUSE_SECONDS: Final = 0.01
PATIENCE_SECONDS: Final = 60.0
_VALUE: Final = bytes(SMALL)


@dataclass(frozen=True, slots=True)
class Took:
    """One round: its start, the seconds until the acknowledgement, and until the read (if any)."""

    began_s: float
    acked_s: float
    read_s: float


@dataclass(slots=True)
class HonestClients:
    """`count` clients of `topic`, which has as many partitions, through 127.0.0.1:`port`."""

    port: int
    topic: str
    count: int = 4
    reads: bool = False
    rounds: list[Took] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for partition in range(self.count):
            thread = threading.Thread(target=self._run, args=(partition,), daemon=True)
            self._threads.append(thread)
            thread.start()
        give_up = time.monotonic() + PATIENCE_SECONDS
        while len(self.rounds) < self.count and not self.problems and time.monotonic() < give_up:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def between(self, began_s: float, ended_s: float) -> list[Took]:
        """Return the completed rounds that began in this interval."""
        return [took for took in list(self.rounds) if began_s <= took.began_s < ended_s]

    def await_round(self, began_s: float) -> None:
        """Wait until a round that began since then is complete, so that a busy machine has a figure too."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (
            not self.between(began_s, math.inf) and not self.problems and time.monotonic() < give_up
        ):
            time.sleep(0.05)

    def _run(self, partition: int) -> None:
        try:
            self._talk(partition)
        except (KafkaException, TimeoutError, BufferError) as error:
            self.problems.append(f"partition {partition}: {error}")

    def _talk(self, partition: int) -> None:
        servers: dict[str, str | int | bool] = {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "log_level": 2,
        }
        acked: list[KafkaError | None] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            acked.append(error)

        producer = Producer({**servers, "acks": "all", "linger.ms": 0})
        consumer = self._consumer(servers, partition) if self.reads else None
        try:
            while not self._ending.wait(PAUSE_SECONDS):
                acked.clear()
                began = time.monotonic()
                producer.produce(self.topic, _VALUE, partition=partition, on_delivery=on_delivery)
                producer.flush(PATIENCE_SECONDS)
                if not acked:
                    raise TimeoutError(f"no acknowledgement within {PATIENCE_SECONDS:g} s")
                if acked[0] is not None:
                    raise KafkaException(acked[0])
                acked_s = time.monotonic() - began
                if consumer is not None:
                    _read_one(consumer)
                self.rounds.append(Took(began, acked_s, time.monotonic() - began))
        finally:
            if consumer is not None:
                consumer.close()

    def _consumer(self, servers: dict[str, str | int | bool], partition: int) -> Consumer:
        consumer = Consumer(
            {**servers, "group.id": "honest", "enable.auto.commit": False, "fetch.wait.max.ms": 500}
        )
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        return consumer


def _read_one(consumer: Consumer) -> None:
    message = consumer.poll(PATIENCE_SECONDS)
    if message is None:
        raise TimeoutError(f"no record to read within {PATIENCE_SECONDS:g} s")
    error = message.error()
    if error is not None:
        raise KafkaException(error)
