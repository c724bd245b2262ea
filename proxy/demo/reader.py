"""One member of the consumer group (librdkafka).

Rules:
- It is ready at its first assignment; whatever is produced after that is read from the start.
- Latency is from the producer's hand to ours: both clocks are this machine's monotonic one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proxy.demo.figures import Latencies
from proxy.demo.ledger import Ledger, read_stamp
from proxy.demo.libraries import PATIENCE_S, RequestRate
from proxy.demo.messages import ClientReady, Final, Tick, say
from proxy.demo.producers import TICK_S

if TYPE_CHECKING:
    import threading

    from confluent_kafka import Message as Consumed

GROUP = "billing"


class Reading:
    """The book of what one member consumed."""

    def __init__(self) -> None:
        self._consumed = Ledger()
        self._latencies = Latencies()

    def take(self, key: bytes, value: bytes, partition: int, now_ns: int) -> None:
        """Enter one record."""
        sequence, produced_at_ns = read_stamp(value)
        self._consumed.add(key.decode(), partition, sequence)
        self._latencies.add((now_ns - produced_at_ns) / 1e6)

    def tick(self, requests_per_s: float) -> Tick:
        """Tell how it goes."""
        return Tick(
            requests_per_s=requests_per_s,
            consumed=self._consumed.count,
            latency=self._latencies.take(),
        )

    def final(self, brokers: dict[int, str], failed: int) -> Final:
        """Give the book away."""
        return Final(
            runs=self._consumed.runs(),
            out_of_order=self._consumed.out_of_order,
            repeated=self._consumed.repeated,
            failed=failed,
            brokers=brokers,
        )


def read(name: str, bootstrap: str, topic: str, stop: threading.Event) -> None:
    """Consume until asked to stop, telling how it goes."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - one library a process

    rate = RequestRate()
    consumer = Consumer(
        {
            "client.id": name,
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            # The mock does not wake a waiting fetch when data comes: it sleeps its whole wait.
            "fetch.wait.max.ms": 20,
            "statistics.interval.ms": 500,
            "stats_cb": rate.on_statistics,
        }
    )
    reading = Reading()
    failed = 0
    ready = False
    consumer.subscribe([topic], on_assign=lambda *_: None)
    next_tick_s = time.monotonic() + TICK_S
    while not stop.is_set():
        record: Consumed | None = consumer.poll(0.1)
        if record is not None:
            if record.error() is None:
                key, value = record.key() or b"", record.value() or b""
                reading.take(key, value, record.partition() or 0, time.monotonic_ns())
            else:
                failed += 1
        if not ready and consumer.assignment():
            ready = True
            say(ClientReady())
        if (now_s := time.monotonic()) >= next_tick_s:
            say(reading.tick(rate.per_s))
            next_tick_s = now_s + TICK_S
    known = consumer.list_topics(topic, timeout=PATIENCE_S).brokers
    brokers = {broker.id: f"{broker.host}:{broker.port}" for broker in known.values()}
    consumer.close()
    say(reading.tick(rate.per_s))
    say(reading.final(brokers, failed))
