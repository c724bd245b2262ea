"""Reader: a member of the group reads what was produced, and reports each record in the order it came."""

from __future__ import annotations

import threading
import time

import pytest

from proxy.demo import clients
from proxy.demo.clients import PRODUCERS, NumberingProducer, read, record_value
from proxy.demo.cluster import start_brokers
from proxy.demo.libraries import GroupReader, Librdkafka
from proxy.demo.processes import Brokers, ClientReady, ClientResult, ClientStatus, Message


class FakeReader:
    """A consumer that has these records, then an error, and then sets `ended`."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)
        self.ended = threading.Event()

    def maybe_next(self) -> FakeRecord:
        if self._numbers:
            return FakeRecord(self._numbers.pop(0))
        self.ended.set()
        return FakeRecord(None)

    def is_assigned(self) -> bool:
        return True

    def requests_per_s(self) -> float:
        return 3.0

    def brokers(self) -> Brokers:
        return {}

    def close(self) -> None:
        """Nothing to close."""


class FakeRecord:
    """A record of partition 0, or an error."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def error(self) -> str | None:
        return "no broker" if self._number is None else None

    def key(self) -> bytes:
        return b"noisy"

    def value(self) -> bytes:
        return record_value(self._number or 0, time.monotonic_ns() - 5_000_000, 32)

    def partition(self) -> int:
        return 0


def test_a_reader_reports_what_it_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result lists the numbers in the order they came, swapped and repeated ones too, and counts errors."""
    reader = FakeReader(0, 2, 1, 2)
    sent: list[Message] = []
    monkeypatch.setattr(clients, "send", sent.append)

    read(reader, reader.ended)

    ready, status, result = sent
    assert isinstance(ready, ClientReady)
    assert isinstance(status, ClientStatus)
    assert (status.consumed, status.requests_per_s) == (4, 3.0)
    assert min(status.latencies_us) >= 5000
    assert result == ClientResult(4, 1, {}, {"noisy/0": [0, 2, 1, 2]})


def test_a_reader_reads_what_was_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real consumer on the mock cluster consumes every acked record, then stops when told."""
    owner, cluster = start_brokers()
    bootstrap = ",".join(cluster.brokers.values())
    library = Librdkafka("noisy", bootstrap, cluster.topic)
    made = NumberingProducer("noisy", library, cluster.partitions, PRODUCERS["producer-2"])
    for _ in range(100):
        made.send_one(time.monotonic_ns())
    acked = made.result()
    sent: list[Message] = []
    stop = threading.Event()

    def send(message: Message) -> None:
        sent.append(message)
        if isinstance(message, ClientStatus) and message.consumed >= 100:
            stop.set()

    monkeypatch.setattr(clients, "send", send)
    read(GroupReader("reader-1", bootstrap, cluster.topic), stop)

    result = sent[-1]
    assert isinstance(result, ClientResult)
    assert result.numbers == {stream: sorted(numbers) for stream, numbers in acked.numbers.items()}
    assert result.brokers == cluster.brokers
    assert any(isinstance(message, ClientReady) for message in sent)
    del owner
