"""Two Kafka client libraries, as far as a producer of the demo needs them.

Rules:
- Acknowledgements are told in the caller's thread, each with the time it was known.
- Requests are counted by the libraries themselves.
- All ask for acks=all. Whose records are read back asks for idempotence, too, so that what is acked
  is neither lost nor doubled by a retry.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as Delivered

    from proxy.demo.messages import Brokers

PATIENCE_S = 15.0
OnAck = Callable[[bool, int], None]
"""Acked or failed, and when (monotonic nanoseconds)."""


class Answered(NamedTuple):
    """Requests that were answered so far, and when they were counted (monotonic nanoseconds)."""

    requests: int = 0
    at_ns: int = 0


class Library(Protocol):
    """A Kafka client library, as far as a producer of ours needs it."""

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Hand over one record; `on_ack` is called in `serve` or `flush`, in their thread."""

    def serve(self, seconds: float) -> None:
        """Let time pass; acknowledgements are told meanwhile."""

    def flush(self) -> None:
        """Wait until every record was acked or has failed."""

    def requests_per_s(self) -> float:
        """Return the library's own figure."""

    def answered(self) -> Answered:
        """Return the library's own count; nothing if it does not count."""

    def brokers(self) -> Brokers:
        """Return what the library learnt from its metadata."""


class KafkaPython:
    """kafka-python. `api_version` is given because it cannot read the mock's ApiVersions."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        from kafka import KafkaProducer  # type: ignore[import-untyped]  # noqa: PLC0415 - one library a process

        self._topic = topic
        # The library answers in its own thread; ours picks the answers up.
        self._answers: deque[tuple[OnAck, bool, int]] = deque()
        self._producer = KafkaProducer(
            client_id=name,
            bootstrap_servers=bootstrap.split(","),
            api_version=(2, 1),
            acks="all",
            # A rate over the last second or two instead of over the last minute.
            metrics_sample_window_ms=1000,
        )
        self._producer.partitions_for(topic)

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Hand over one record."""
        future = self._producer.send(self._topic, value, key=key, partition=partition)
        answers = self._answers
        future.add_callback(lambda _: answers.append((on_ack, True, time.monotonic_ns())))
        future.add_errback(lambda _: answers.append((on_ack, False, time.monotonic_ns())))

    def serve(self, seconds: float) -> None:
        """Sleep, then tell what came in."""
        time.sleep(seconds)
        self._tell()

    def flush(self) -> None:
        """Wait for every answer."""
        self._producer.flush(PATIENCE_S)
        self._tell()

    def _tell(self) -> None:
        while self._answers:
            on_ack, acked, at_ns = self._answers.popleft()
            on_ack(acked, at_ns)

    def requests_per_s(self) -> float:
        """Return its metric `request-rate`."""
        return float(self._producer.metrics()["producer-metrics"]["request-rate"])

    def answered(self) -> Answered:
        """Return nothing: its metrics are rates."""
        return Answered()

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        known = self._producer._metadata.brokers()  # noqa: SLF001 - kafka-python shows it nowhere else
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in known}


class RequestRate:
    """Requests, from the totals that librdkafka's statistics tell (STATISTICS.md): `tx` were sent,
    `rx` were answered, at `ts` microseconds of its monotonic clock.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self.per_s = 0.0
        """Sent per second, between the last two reports."""
        self.answered = Answered()

    def on_statistics(self, text: str) -> None:
        """Take one statistics report."""
        report = json.loads(text)
        sent, at_us = int(report["tx"]), int(report["ts"])
        if self._last is not None and at_us > self._last[1]:
            self.per_s = (sent - self._last[0]) * 1e6 / (at_us - self._last[1])
        self._last = sent, at_us
        self.answered = Answered(int(report["rx"]), at_us * 1000)


class Librdkafka:
    """confluent-kafka. A short linger makes it chatty; its readers keep up, as the mock answers a
    fetch with one batch a partition.
    """

    def __init__(
        self, name: str, bootstrap: str, topic: str, *, one_record_a_request: bool = False
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - one library a process

        self._topic = topic
        self._rate = RequestRate()
        many = {"enable.idempotence": True, "linger.ms": 20, "statistics.interval.ms": 500}
        # Idempotence would allow five requests in flight to each broker.
        one = {"batch.num.messages": 1, "linger.ms": 0, "statistics.interval.ms": 200}
        self._producer = Producer(
            {
                "client.id": name,
                "bootstrap.servers": bootstrap,
                "stats_cb": self._rate.on_statistics,
                **(one if one_record_a_request else many),
            }
        )
        self._producer.list_topics(topic, timeout=PATIENCE_S)

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Hand over one record."""

        def delivered(error: KafkaError | None, _: Delivered) -> None:
            on_ack(error is None, time.monotonic_ns())

        self._producer.produce(self._topic, value, key, partition=partition, on_delivery=delivered)

    def serve(self, seconds: float) -> None:
        """Poll: delivery reports and statistics are told meanwhile."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._producer.poll(left_s)

    def flush(self) -> None:
        """Wait for every answer."""
        self._producer.flush(PATIENCE_S)

    def requests_per_s(self) -> float:
        """Return the rate between its last two statistics."""
        return self._rate.per_s

    def answered(self) -> Answered:
        """Return what its last statistics told."""
        return self._rate.answered

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        known = self._producer.list_topics(self._topic, timeout=PATIENCE_S).brokers
        return {broker.id: f"{broker.host}:{broker.port}" for broker in known.values()}


def chatty(name: str, bootstrap: str, topic: str) -> Librdkafka:
    """Return confluent-kafka that sends each record in a request of its own."""
    return Librdkafka(name, bootstrap, topic, one_record_a_request=True)
