"""Two Kafka client libraries as the demo uses them: kafka-python and librdkafka (confluent-kafka).

Rules:
- Acknowledgements call back in the caller's thread, each with the time it arrived.
- Requests are counted by the libraries themselves.
- Producers use acks=all. Those whose records are read back are idempotent: a retry neither loses nor doubles a record.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

    from proxy.demo.processes import Brokers

TIMEOUT_S = 15.0
OnAck = Callable[[bool, int], None]
"""Acked or failed, and when (monotonic nanoseconds)."""


class KafkaPython:
    """A kafka-python producer. `api_version` is given because it cannot read the mock's ApiVersions reply."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        from kafka import KafkaProducer  # type: ignore[import-untyped]  # noqa: PLC0415 - one library a process

        self._topic = topic
        # The library acknowledges in a thread of its own; `poll` calls back in the caller's.
        self._acks: deque[tuple[OnAck, bool, int]] = deque()
        self._producer = KafkaProducer(
            client_id=name,
            bootstrap_servers=bootstrap.split(","),
            api_version=(2, 1),
            acks="all",
            # Rates over the last second or two instead of over the last minute.
            metrics_sample_window_ms=1000,
        )
        self._producer.partitions_for(topic)

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Pass one record to the library; `on_ack` is called in `poll` or `flush`."""
        future = self._producer.send(self._topic, value, key=key, partition=partition)
        acks = self._acks
        future.add_callback(lambda _: acks.append((on_ack, True, time.monotonic_ns())))
        future.add_errback(lambda _: acks.append((on_ack, False, time.monotonic_ns())))

    def poll(self, seconds: float) -> None:
        """Sleep, then report what was acknowledged meanwhile."""
        time.sleep(seconds)
        while self._acks:
            on_ack, acked, at_ns = self._acks.popleft()
            on_ack(acked, at_ns)

    def flush(self) -> None:
        """Wait until every record is acked or has failed."""
        self._producer.flush(TIMEOUT_S)
        self.poll(0)

    def requests_per_s(self) -> float:
        """Return its metric `request-rate`."""
        return float(self._producer.metrics()["producer-metrics"]["request-rate"])

    def answered(self) -> tuple[int, int]:
        """Return (0, 0): its metrics are rates, not counts."""
        return 0, 0

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        known = self._producer._metadata.brokers()  # noqa: SLF001 - kafka-python shows it nowhere else
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in known}


class RequestRate:
    """Requests by librdkafka's statistics (STATISTICS.md): `tx` sent, `rx` answered, at `ts` of its monotonic clock."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self.per_s = 0.0
        """Sent per second, between the last two reports."""
        self.answered = 0, 0
        """How many were answered, and when that was counted (nanoseconds)."""

    def on_statistics(self, text: str) -> None:
        """Read one statistics report."""
        report = json.loads(text)
        sent, at_us = int(report["tx"]), int(report["ts"])
        if self._last is not None and at_us > self._last[1]:
            self.per_s = (sent - self._last[0]) * 1e6 / (at_us - self._last[1])
        self._last = sent, at_us
        self.answered = int(report["rx"]), at_us * 1000


class Librdkafka:
    """A confluent-kafka producer. Its linger is short, because the mock answers a fetch with one batch a partition."""

    def __init__(self, name: str, bootstrap: str, topic: str, *, batches: bool = True) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - one library a process

        self._topic = topic
        self._rate = RequestRate()
        batched = {"enable.idempotence": True, "linger.ms": 20, "statistics.interval.ms": 500}
        # Not idempotent: that would limit it to five requests in flight to each broker.
        single = {"batch.num.messages": 1, "linger.ms": 0, "statistics.interval.ms": 200}
        self._producer = Producer(
            {
                "client.id": name,
                "bootstrap.servers": bootstrap,
                "stats_cb": self._rate.on_statistics,
                **(batched if batches else single),
            }
        )
        self._producer.list_topics(topic, timeout=TIMEOUT_S)

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Pass one record to the library; `on_ack` is called in `poll` or `flush`."""
        self._producer.produce(
            self._topic,
            value,
            key,
            partition=partition,
            on_delivery=lambda error, _: on_ack(error is None, time.monotonic_ns()),
        )

    def poll(self, seconds: float) -> None:
        """Report acknowledgements and statistics as they come."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._producer.poll(left_s)

    def flush(self) -> None:
        """Wait until every record is acked or has failed."""
        self._producer.flush(TIMEOUT_S)

    def requests_per_s(self) -> float:
        """Return the rate between its last two statistics reports."""
        return self._rate.per_s

    def answered(self) -> tuple[int, int]:
        """Return how many requests were answered and when that was counted, by its last report."""
        return self._rate.answered

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        return _brokers_of(self._producer, self._topic)


class GroupReader:
    """A confluent-kafka consumer, one member of the consumer group."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - one library a process

        self._topic = topic
        self._rate = RequestRate()
        self._consumer = Consumer(
            {
                "client.id": name,
                "bootstrap.servers": bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                # The mock does not answer a waiting fetch when data arrives: it sleeps for the whole wait.
                "fetch.wait.max.ms": 20,
                "statistics.interval.ms": 500,
                "stats_cb": self._rate.on_statistics,
            }
        )
        self._consumer.subscribe([topic])

    def maybe_next(self) -> Message | None:
        """Return the next record or error; None after a tenth of a second without one."""
        return self._consumer.poll(0.1)

    def is_assigned(self) -> bool:
        """Tell whether it has partitions."""
        return bool(self._consumer.assignment())

    def requests_per_s(self) -> float:
        """Return the rate between its last two statistics reports."""
        return self._rate.per_s

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        return _brokers_of(self._consumer, self._topic)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


def _brokers_of(client: Producer | Consumer, topic: str) -> Brokers:
    known = client.list_topics(topic, timeout=TIMEOUT_S).brokers
    return {broker.id: f"{broker.host}:{broker.port}" for broker in known.values()}
