"""Clients of kafka-python and librdkafka for the tests of `access`, and the Sluice whose rules the tests change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.support.access.attempts import MALLORY
from tests.support.access.guarded_kafka import through
from tests.support.access.speaker import Speaker, password_of
from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.kafka_sasl import PLAIN
from tests.support.kafka.load import await_that
from tests.support.processes.sluice_process import SluiceProcess

SECURITY: Final = ClientSecurity(PLAIN, MALLORY, password_of(MALLORY))
TOPIC: Final = "orders"
SOON_SECONDS: Final = 60
Rule = dict[str, Any]
READS: Final[Rule] = {"topics": {TOPIC: ["read"]}, "groups": {"mallory-*": ["read"]}}
WRITES: Final[Rule] = {"topics": {TOPIC: ["write"]}}


class Guarded:
    """Sluice, and the rules that it has now."""

    def __init__(self, sluice: SluiceProcess) -> None:
        self.sluice = sluice
        self.bootstrap = sluice.bootstrap

    def allow(self, *rules: Rule) -> None:
        """Let mallory do this, and nothing else; return when it holds."""
        marker = f"marker-{time.monotonic_ns()}"
        mine = [{"who": [MALLORY], **rule} for rule in rules]
        mine.append({"who": [MALLORY], "groups": {marker: ["describe"]}})
        self.reload(mine)
        with through(self.sluice, MALLORY) as speaker:
            await_that(lambda: _finds(speaker, marker), "the new rules")

    def reload(self, rules: list[Rule]) -> None:
        """Change the rules, and return at once."""
        self.sluice.reload(policies=[{"use": "access", "config": {"rules": rules}}])


def _finds(speaker: Speaker, group: str) -> bool:
    reply = speaker.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
    return bool(reply.coordinators[0].error_code != 30)


def said(call: Callable[[], object]) -> str:
    """Return the name of the error that a call raises; "" if it succeeds."""
    try:
        call()
    except PythonKafkaError as error:
        return type(error).__name__
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def python_write(bootstrap: str) -> None:
    """Write a record by kafka-python."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, **SECURITY.kafka_python(), max_block_ms=SOON_SECONDS * 1000
    )
    try:
        producer.send(TOPIC, b"x", partition=0).get(timeout=SOON_SECONDS)
    finally:
        producer.close(timeout=1)


def python_read(bootstrap: str) -> None:
    """Read a record in a group by kafka-python."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="mallory-python",
        auto_offset_reset="earliest",
        **SECURITY.kafka_python(),
    )
    try:
        give_up = time.monotonic() + SOON_SECONDS
        while not consumer.poll(timeout_ms=1000):
            assert time.monotonic() < give_up, "no record"
    finally:
        consumer.close(autocommit=False)


def librdkafka_write(bootstrap: str) -> None:
    """Write a record by librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, **SECURITY.librdkafka()})
    errors: list[KafkaError] = []
    producer.produce(
        TOPIC, b"x", on_delivery=lambda error, _: errors.append(error) if error else None
    )
    assert producer.flush(SOON_SECONDS) == 0
    if errors:
        raise KafkaException(errors[0])


def librdkafka_read(bootstrap: str) -> None:
    """Read a record in a group by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "mallory-librdkafka",
            "auto.offset.reset": "earliest",
            **SECURITY.librdkafka(),
        }
    )
    try:
        consumer.subscribe([TOPIC])
        give_up = time.monotonic() + SOON_SECONDS
        while True:
            message = consumer.poll(1)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                return
            assert time.monotonic() < give_up, "no record"
    finally:
        consumer.close()
