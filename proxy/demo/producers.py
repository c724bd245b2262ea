"""The two producers: a polite one (kafka-python) and a noisy one (librdkafka).

Rules:
- Both write to every partition in turn and number their records per partition (see `ledger`).
- Latency is from handing a record to the library until its acknowledgement is known.
- Both ask for acks=all and idempotence, so what is acked is neither lost nor doubled by a retry.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from proxy.demo.figures import Latencies, Pace
from proxy.demo.ledger import Ledger, stamp
from proxy.demo.messages import Brokers, ClientReady, Final, Tick, say

if TYPE_CHECKING:
    import threading

    from confluent_kafka import KafkaError
    from confluent_kafka import Message as Delivered

TICK_S = 0.5
PATIENCE_S = 15.0
OnAck = Callable[[bool, int], None]
"""Acked or failed, and when (monotonic nanoseconds)."""


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

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        known = self._producer._metadata.brokers()  # noqa: SLF001 - kafka-python shows it nowhere else
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in known}


class RequestRate:
    """Requests per second, from the totals that librdkafka's statistics tell."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self.per_s = 0.0

    def on_statistics(self, text: str) -> None:
        """Take one statistics report: `tx` is requests sent, `ts` microseconds (STATISTICS.md)."""
        report = json.loads(text)
        sent, at_us = int(report["tx"]), int(report["ts"])
        if self._last is not None and at_us > self._last[1]:
            self.per_s = (sent - self._last[0]) * 1e6 / (at_us - self._last[1])
        self._last = sent, at_us


class Librdkafka:
    """confluent-kafka. A short linger makes it chatty; its readers keep up, as the mock answers a
    fetch with one batch a partition.
    """

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - one library a process

        self._topic = topic
        self._rate = RequestRate()
        self._producer = Producer(
            {
                "client.id": name,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "statistics.interval.ms": 500,
                "stats_cb": self._rate.on_statistics,
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

    def brokers(self) -> Brokers:
        """Return the brokers of its metadata."""
        known = self._producer.list_topics(self._topic, timeout=PATIENCE_S).brokers
        return {broker.id: f"{broker.host}:{broker.port}" for broker in known.values()}


class Producing:
    """One producer's work: a steady rate of numbered records, and the book of what was acked."""

    def __init__(self, name: str, library: Library, partitions: int, record_bytes: int) -> None:
        self._name = name
        self._library = library
        self._record_bytes = record_bytes
        self._next = [0] * partitions
        self._turn = 0
        self._acked = Ledger()
        self._sent = 0
        self._latencies = Latencies()

    def send_one(self, now_ns: int) -> None:
        """Send the next record to the next partition."""
        partition = self._turn
        self._turn = (partition + 1) % len(self._next)
        sequence = self._next[partition]
        self._next[partition] += 1
        self._sent += 1

        def on_ack(acked: bool, at_ns: int) -> None:  # noqa: FBT001 - the libraries' callback
            if acked:
                self._acked.add(self._name, partition, sequence)
                self._latencies.add((at_ns - now_ns) / 1e6)

        value = stamp(sequence, now_ns, self._record_bytes)
        self._library.send(self._name.encode(), value, partition, on_ack)

    def warm_up(self) -> None:
        """Send one record to each partition: connecting is not the latency that is asked for."""
        for _ in self._next:
            self.send_one(time.monotonic_ns())
        self._library.flush()
        self._latencies.take()

    def tick(self) -> Tick:
        """Tell how it goes."""
        return Tick(
            requests_per_s=self._library.requests_per_s(),
            acked=self._acked.count,
            latency=self._latencies.take(),
        )

    def final(self) -> Final:
        """Wait for what is under way and give the book away; what was never answered has failed."""
        self._library.flush()
        return Final(
            runs=self._acked.runs(),
            out_of_order=self._acked.out_of_order,
            repeated=self._acked.repeated,
            failed=self._sent - self._acked.count,
            brokers=self._library.brokers(),
        )


def produce(work: Producing, library: Library, per_second: float, stop: threading.Event) -> None:
    """Send at a steady rate until asked to stop, telling how it goes."""
    work.warm_up()
    say(ClientReady())
    now_s = time.monotonic()
    pace = Pace(per_second, now_s, most=max(1, int(per_second / 10)))
    next_tick_s = now_s + TICK_S
    while not stop.is_set():
        library.serve(0.005)
        now_s = time.monotonic()
        for _ in range(pace.due(now_s)):
            work.send_one(time.monotonic_ns())
        if now_s >= next_tick_s:
            say(work.tick())
            next_tick_s = now_s + TICK_S
    final = work.final()
    say(work.tick())
    say(final)
