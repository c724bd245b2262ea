"""Real producers that use all of their quota: one record a request, for so many seconds, each with its own client id.

Each reports its acks, its errors, and the throttle times that it saw itself. A `Tap` measures their rates.
Java's tool takes a number of records instead of a time, and gets what the quota allows.
"""

import json
import logging
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore
from typing import Final

from confluent_kafka import KafkaError, Message, Producer, ThrottleEvent
from kafka import KafkaProducer

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_sasl import PLAIN
from tests.support.kafka.verifiable import config_file

VALUE: Final = b"0123456789" * 20
IN_FLIGHT: Final = 5
WAIT_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Errand:
    """The task of a producer; its client id is its user's name."""

    bootstrap: str
    user: str
    password: str
    topic: str
    seconds: float
    records: int
    """For a tool that counts records instead."""


@dataclass(slots=True)
class Told:
    """The report of a producer."""

    acked: int = 0
    errors: list[str] = field(default_factory=list)
    throttle_avg_ms: float | None = None
    """Over all its responses, if it keeps such a figure."""
    throttle_max_ms: float | None = None


def kafka_python(errand: Errand) -> Told:
    """kafka-python: honours throttle_time_ms."""
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of each throttled response
    told = Told()
    turn = Semaphore(IN_FLIGHT)
    producer = KafkaProducer(
        bootstrap_servers=errand.bootstrap,
        client_id=errand.user,
        batch_size=0,
        metrics_num_samples=20,  # so that its averages are over the whole run
        **ClientSecurity(PLAIN, errand.user, errand.password).kafka_python(),
    )

    def succeed(_: object) -> None:
        told.acked += 1
        turn.release()

    def fail(error: BaseException) -> None:
        told.errors.append(repr(error))
        turn.release()

    try:
        ends = time.monotonic() + errand.seconds
        while time.monotonic() < ends:
            assert turn.acquire(timeout=WAIT_SECONDS), "kafka-python stands still"
            sent = producer.send(errand.topic, VALUE, partition=0)
            sent.add_callback(succeed).add_errback(fail)
        producer.flush(timeout=WAIT_SECONDS)
        metrics = producer.metrics()["producer-metrics"]
        told.throttle_avg_ms = metrics["throttle-time-avg"]
        told.throttle_max_ms = metrics["throttle-time-max"]
    finally:
        producer.close()
    return told


def librdkafka(errand: Errand) -> Told:
    """librdkafka: it reports throttle_time_ms and does not wait."""
    told = Told()
    reported: list[float] = []

    def on_throttle(event: ThrottleEvent) -> None:
        reported.append(event.throttle_time * 1000)

    def on_error(error: KafkaError) -> None:
        told.errors.append(str(error))

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        waiting.pop()
        if error is None:
            told.acked += 1
        else:
            told.errors.append(str(error))

    waiting: list[None] = []
    producer = Producer(
        {
            "bootstrap.servers": errand.bootstrap,
            "client.id": errand.user,
            "enable.idempotence": True,
            "max.in.flight": IN_FLIGHT,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "error_cb": on_error,
            "throttle_cb": on_throttle,
            **ClientSecurity(PLAIN, errand.user, errand.password).librdkafka(),
        }
    )
    ends = time.monotonic() + errand.seconds
    while time.monotonic() < ends:
        while len(waiting) < 2 * IN_FLIGHT:
            waiting.append(None)
            producer.produce(errand.topic, VALUE, partition=0, on_delivery=on_delivery)
        producer.poll(0.05)
    if producer.flush(WAIT_SECONDS):
        told.errors.append("not all was sent")
    told.throttle_max_ms = max(reported, default=None)
    return told


def java_producer(errand: Errand, java: Java, directory: Path) -> Told:
    """ProducerPerformance: honours throttle_time_ms."""
    config = {
        "bootstrap.servers": errand.bootstrap,
        "client.id": errand.user,
        "batch.size": "0",
        "linger.ms": "0",
        "metrics.num.samples": "20",
        **ClientSecurity(PLAIN, errand.user, errand.password).java(),
    }
    said = java.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", errand.topic, "--num-records", str(errand.records), "--record-size", "200"),
        *("--throughput", "-1", "--print-metrics"),
        *("--command-config", config_file(directory / "java-producer.properties", config)),
        timeout=errand.seconds + WAIT_SECONDS,
    )
    counted = re.findall(
        r"^(\d+) records sent", said, re.MULTILINE
    )  # now and then, and of all at last
    assert counted, said
    failed = int(float(_java_metric(said, "producer-metrics:record-error-total")))
    return Told(
        acked=int(counted[-1]) - failed,
        errors=[f"{failed} records"] if failed else [],
        throttle_avg_ms=_java_metric(said, "producer-metrics:produce-throttle-time-avg"),
        throttle_max_ms=_java_metric(said, "producer-metrics:produce-throttle-time-max"),
    )


def franz_go(errand: Errand, program: Path) -> Told:
    """franz-go: honours throttle_time_ms."""
    done = subprocess.run(
        [
            str(program),
            *("-bootstrap", errand.bootstrap, "-topic", errand.topic, "-user", errand.user),
            *("-password", errand.password, "-client-id", errand.user),
            *("-seconds", str(errand.seconds)),
        ],
        capture_output=True,
        text=True,
        timeout=errand.seconds + WAIT_SECONDS,
        check=True,
    )
    found = json.loads(done.stdout)
    return Told(
        acked=found["acked"],
        errors=found["errors"],
        throttle_max_ms=max(found["throttle_ms"], default=None),
    )


def _java_metric(said: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)}:\{{.*?\}}\s*:\s*(\S+)", said, re.MULTILINE)
    assert found is not None, f"no {name} in {said}"
    return float(found[1])
