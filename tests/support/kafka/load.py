"""A load that keeps records: a producer and a group in threads while a test breaks things, and the comparison after it.

Every value is its own serial number, number n goes to partition n % partitions, and an ack is recorded with its
partition and offset. The comparison reads what the brokers hold: no acked record is lost or elsewhere, none is there
twice, and each partition is in order.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.support.kafka.python_clients import Read, read_of

WAIT_SECONDS: Final = 240


@dataclass(slots=True)
class LoadProducer:
    """A librdkafka producer of `rate` records a second from entering to leaving; idempotent unless told otherwise.

    `settings` are further settings of librdkafka's.
    """

    bootstrap: str
    topic: str
    partitions: int
    rate: int = 400
    idempotent: bool = True
    settings: dict[str, str | int] = field(default_factory=dict)
    acked: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    sent: int = 0
    _fatal: list[str] = field(default_factory=list)
    _abandon: bool = False
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()
        self.await_acks(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join(2 * WAIT_SECONDS)
        assert not self._thread.is_alive(), "the producer does not end"

    def abandon(self) -> None:
        """Stop waiting for acks: a record that is not acked soon stays unacked. The thread ends later."""
        self._abandon = True
        self._ending.set()

    def await_acks(self, more: int) -> None:
        """Wait until `more` further records are acked, while the load continues."""
        wanted = len(self.acked) + more
        await_that(lambda: len(self.acked) >= wanted or bool(self._fatal), f"{more} more acks")
        assert not self._fatal, self._fatal

    def reckon(self, contents: list[Read]) -> None:
        """Compare with the brokers' content at the end: no failure; each record once, in order, where it was acked."""
        assert not self._fatal, self._fatal
        assert not self.failed, f"{len(self.failed)} failed: {list(self.failed.items())[:3]}"
        silent = set(range(self.sent)) - self.acked.keys()
        assert not silent, (
            f"neither acked nor failed: {len(silent)} of {self.sent}: {sorted(silent)[:9]}"
        )
        found: dict[int, tuple[int, int]] = {}
        last: dict[int, int] = {}
        for record in contents:
            number = int(record.value)
            assert number not in found, f"{number} is there twice: {found[number]} and {record}"
            assert last.get(record.partition, -1) < number, (
                f"{record} after {last[record.partition]}"
            )
            found[number] = (record.partition, record.offset)
            last[record.partition] = number
        assert found.keys() == self.acked.keys()
        elsewhere = {
            number: (found[number], place)
            for number, place in self.acked.items()
            if place != found[number]
            and place[1] >= 0  # a duplicate found by the broker is acked without an offset
        }
        assert not elsewhere, f"found and acked at different places: {list(elsewhere.items())[:3]}"

    def _run(self) -> None:
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": self.bootstrap,
            "acks": "all",
            "enable.idempotence": self.idempotent,
            "linger.ms": 5,
            "max.in.flight": 5,  # as the Java client's default; librdkafka's own would be a million
            "message.timeout.ms": WAIT_SECONDS * 1000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,  # lost connections are what a test makes on purpose
        }
        if not self.idempotent:
            config["message.send.max.retries"] = 0
        producer = Producer({**config, **self.settings, "error_cb": self._on_error})
        began = time.monotonic()
        while not self._ending.is_set() and not self._fatal:
            due = int((time.monotonic() - began) * self.rate)
            while self.sent < due:
                number = self.sent
                producer.produce(
                    self.topic,
                    b"%d" % number,
                    partition=number % self.partitions,
                    on_delivery=self._reporter(number),
                )
                self.sent += 1
            producer.poll(0.01)
        if self._abandon:
            producer.flush(2)  # replies that came may still be unread
            producer.purge()
        producer.flush(WAIT_SECONDS)

    def _reporter(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None:
                self.failed[number] = str(error)
            elif partition is not None:
                # A batch sent again that the broker finds a duplicate is acked without an offset.
                self.acked[number] = (partition, -1 if offset is None else offset)

        return on_delivery

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal.append(str(error))


@dataclass(slots=True)
class GroupReader:
    """One librdkafka member of a group, reading from entering to leaving."""

    bootstrap: str
    topic: str
    group: str
    protocol: str = "classic"
    values: set[int] = field(default_factory=set)
    _broken: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "the consumer does not end"

    def await_values(self, wanted: set[int]) -> None:
        """Wait until every one of these values was read at least once."""
        await_that(lambda: wanted <= self.values or bool(self._broken), "the group's records")
        assert not self._broken, self._broken

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )
        try:
            consumer.subscribe([self.topic])
            while not self._ending.is_set():
                for message in consumer.consume(500, timeout=0.1):
                    error = message.error()
                    if error is None:
                        self.values.add(int(read_of(message).value))
                    elif not error.retriable():
                        self._broken.append(str(error))
            consumer.close()
        except KafkaException as error:
            self._broken.append(str(error))


def await_that(
    condition: Callable[[], bool],
    what: str,
    seconds: float = WAIT_SECONDS,
    said: Callable[[], str] = str,
) -> None:
    """Wait until the condition holds; raises AssertionError with what was `said` after `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"waited {seconds} s in vain for {what} {said()}"
        time.sleep(0.02)
