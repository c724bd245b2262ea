"""One Kafka client of the demo as a process (`-m proxy.demo.clients`): librdkafka, which plays a role.

Rules:
- Arguments: name, bootstrap servers, topic.
- It sends between the commands `start` and `stop`, and ends in time when its standard input does, whatever the
  brokers do.
- The key of a record is its number in its partition. The polite client reads its records back, and compares them with
  those that were acked.
- The polite client is idempotent: a retry neither loses nor doubles a record.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from proxy.demo.processes import ClientReady, ClientResult, ClientStatus, maybe_command, send
from proxy.demo.roles import ROLES, Pace, Role

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, ThrottleEvent

TIMEOUT_S = 60.0
POLL_S = 0.005


class ReadBack:
    """Reads all records of a topic from the beginning, while they are produced."""

    def __init__(self, settings: dict[str, object], topic: str, partitions: int) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415 - a client's process only

        # The mock brokers do not answer a waiting fetch when data arrives: they sleep for the whole wait.
        self._consumer = Consumer({**settings, "group.id": "demo", "fetch.wait.max.ms": 100})
        self._consumer.assign(
            [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        )
        self._last = [-1] * partitions
        self._unmatched: set[tuple[int | None, int]] = set()
        """Records acked and not read yet, or read and not acked yet, as partition and number."""
        self.out_of_order = 0

    def on_ack(self, partition: int | None, number: int) -> None:
        """Enter a record that was acked."""
        self._unmatched ^= {(partition, number)}

    def read(self) -> None:
        """Enter the records that have arrived."""
        for message in self._consumer.consume(500, 0):
            if message.error() is None:
                self._enter(message.partition() or 0, int(message.key() or b"-1"))

    def _enter(self, partition: int, number: int) -> None:
        if number <= self._last[partition]:
            self.out_of_order += 1
            return
        self._last[partition] = number
        self._unmatched ^= {(partition, number)}

    def finish(self) -> int:
        """Read until every record acked was read, or time is up; return how many were not."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._unmatched and time.monotonic() < deadline_s:
            self.read()
            time.sleep(POLL_S)
        self._consumer.close()
        return len(self._unmatched)


class Client:
    """A producer that plays a role, and keeps the books of what was acked."""

    def __init__(self, name: str, bootstrap: str, topic: str, role: Role) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - a client's process only

        self._topic, self._role = topic, role
        settings: dict[str, object] = {"client.id": name, "bootstrap.servers": bootstrap}
        # Not idempotent, because that allows five requests in flight to each broker only.
        single = {"batch.num.messages": 1, "throttle_cb": self._on_throttle}
        kind = {"enable.idempotence": True} if role.is_read_back else single
        self._producer = Producer({**settings, "linger.ms": 0, **kind})
        metadata = self._producer.list_topics(topic, timeout=TIMEOUT_S)
        self.brokers = {each.id: f"{each.host}:{each.port}" for each in metadata.brokers.values()}
        self._next = [0] * len(metadata.topics[topic].partitions)
        self._read_back = ReadBack(settings, topic, len(self._next)) if role.is_read_back else None
        self._sent = self._acked = 0
        self._latencies_ms: list[float] = []
        self._throttles_ms: list[int] = []

    def warm_up(self) -> None:
        """Send one record to each partition, so that no latency includes connecting."""
        for _ in self._next:
            self._send_one()
        self._producer.flush(TIMEOUT_S)
        self._latencies_ms.clear()

    def run(self) -> None:
        """Obey commands until standard input ends."""
        pace: Pace | None = None
        while (command := maybe_command()) != "":
            if command is not None:
                if command != "report":
                    pace = Pace(self._role) if command == "start" else None
                send(self._status())
            if pace is not None:
                for _ in range(pace.due(time.monotonic(), len(self._producer))):
                    self._send_one()
            self._producer.poll(POLL_S)
            if self._read_back is not None:
                self._read_back.read()

    def result(self) -> ClientResult:
        """Wait for what is outstanding, and return the books."""
        self._producer.flush(TIMEOUT_S)
        failed = self._sent - self._acked
        if self._read_back is None:
            return ClientResult(self._acked, failed)
        lost = self._read_back.finish()
        return ClientResult(self._acked, failed, lost, self._read_back.out_of_order)

    def _send_one(self) -> None:
        """Send the next record to the next partition."""
        partition = self._sent % len(self._next)
        key = str(self._next[partition]).encode()
        self._next[partition] += 1
        self._sent += 1
        value = b"." * self._role.record_bytes
        self._producer.produce(self._topic, value, key, partition, self._on_delivery)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return
        self._acked += 1
        self._latencies_ms.append((message.latency() or 0.0) * 1000)
        if self._read_back is not None:
            self._read_back.on_ack(message.partition(), int(message.key() or b"-1"))

    def _on_throttle(self, event: ThrottleEvent) -> None:
        if event.throttle_time:
            self._throttles_ms.append(round(event.throttle_time * 1000))

    def _status(self) -> ClientStatus:
        latencies_ms, self._latencies_ms = self._latencies_ms, []
        throttles_ms, self._throttles_ms = self._throttles_ms, []
        outstanding = len(self._producer)
        return ClientStatus(
            time.monotonic_ns(), self._acked, outstanding, latencies_ms, throttles_ms
        )


def main(name: str, bootstrap: str, topic: str) -> None:
    """Play one role until standard input ends."""
    role = ROLES[name]
    client = Client(name, bootstrap, topic, role)
    client.warm_up()
    send(ClientReady(client.brokers))
    client.run()
    send(client.result())


if __name__ == "__main__":
    main(*sys.argv[1:])
