"""Rows to a Kafka topic as well."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import structlog

from proxy.core.usage import UsageRow
from proxy.telemetry.usage_log import publisher as publishers
from proxy.telemetry.usage_log.publisher import (
    GuardedProducer,
    Own,
    OwnAddressError,
    Publisher,
    connect_producer,
)
from proxy.telemetry.usage_log.rows import Stamp, entity_rows
from proxy.telemetry.usage_log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OWN = Own(("127.0.0.1", "proxy.example"), frozenset({19092, 19093}))
BROKERS = [("kafka-1", 9092)]


class Future:
    """Of a row that got there, or did not."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def add_callback(self, call: Callable[[object], None]) -> None:
        if self._error is None:
            call(None)

    def add_errback(self, call: Callable[[Exception], None]) -> None:
        if self._error is not None:
            call(self._error)


class Producer:
    """Takes everything, or refuses everything, or hangs."""

    def __init__(self, error: Exception | None = None, hang: Event | None = None) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.closed = Event()
        self.error = error
        self._hang = hang

    def send(self, topic: str, *, value: bytes, key: bytes) -> Future:
        if self._hang is not None:
            assert self._hang.wait(120), "nobody came back while it hung"
        self.sent.append((topic, key, value))
        return Future(self.error)

    def close(self, timeout: float) -> None:
        self.closed.set()


def batch(tmp_path: Path, count: int = 3) -> tuple[list, bytes]:
    """Rows and their lines."""
    used = [UsageRow(1000, "alice", f"c{place}", *[1] * 13) for place in range(count)]
    rows = list(entity_rows(Stamp("pod-7", "b"), used, [None] * count))
    writer = Writer(tmp_path, "a", "0195a3c2b1000042")
    lines = writer.write("entity", rows, 0)
    writer.close()
    return rows, lines


def publisher_of(producer: Producer) -> Publisher:
    return Publisher(BROKERS, "usage", OWN, lambda *_: producer)


def test_each_row_is_a_message_of_its_own(tmp_path: Path) -> None:
    """Its value is its line, its key says whose it is, so that one key's rows stay in order."""
    producer = Producer()
    publisher = publisher_of(producer)
    publisher.start()
    rows, lines = batch(tmp_path)
    publisher.publish(rows, lines)

    assert publisher.close(10)
    assert producer.closed.is_set()
    assert [key for _, key, _ in producer.sent] == [b"pod-7|alice|c%d" % n for n in range(3)]
    assert [value for _, _, value in producer.sent] == lines.splitlines()
    assert {topic for topic, _, _ in producer.sent} == {"usage"}
    assert publisher.lost == 0


def test_rows_that_do_not_get_there_are_counted(tmp_path: Path) -> None:
    """The brokers say no: the log says so once."""
    publisher = publisher_of(Producer(RuntimeError("no such topic")))
    with structlog.testing.capture_logs() as logs:
        publisher._log = structlog.get_logger()
        publisher.start()
        publisher.publish(*batch(tmp_path))
        publisher.close(10)

    assert publisher.lost == 3
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("usage_log_not_published", "RuntimeError: no such topic")
    ]


def test_brokers_that_cannot_be_reached_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt fails, the next does not: nothing is lost."""
    monkeypatch.setattr(publishers, "_RETRY_S", 0.0)
    producer, attempts = Producer(), []

    def connect(*_: object) -> Producer:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError("nobody there")
        return producer

    publisher = Publisher(BROKERS, "usage", OWN, connect)
    publisher.start()
    publisher.publish(*batch(tmp_path))
    while len(producer.sent) < 3:
        publisher._woken.wait(0.01)
    publisher.close(10)

    assert len(attempts) == 3
    assert publisher.lost == 0


def test_a_producer_that_hangs_delays_nobody(tmp_path: Path) -> None:
    """Neither who publishes nor who closes waits for it."""
    hang = Event()
    publisher = publisher_of(Producer(hang=hang))
    publisher.start()
    publisher.publish(*batch(tmp_path))
    publisher.publish(*batch(tmp_path))
    assert not publisher.close(0.05)

    assert not hang.is_set()  # both are here, and it still hangs
    hang.set()


def test_what_waits_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that take nothing: what is more than the bound behind is lost and counted."""
    rows, lines = batch(tmp_path)
    line_bytes = len(lines) // 3
    monkeypatch.setattr(publishers, "PENDING_MOST_BYTES", 4 * line_bytes + 10)
    publisher = publisher_of(Producer())  # not started: nothing is taken away
    publisher.publish(rows, lines)
    publisher.publish(rows, lines)

    assert publisher.lost == 2
    assert len(publisher._queue) == 4


def test_our_own_address_is_never_dialled(tmp_path: Path) -> None:
    """Neither as a bootstrap server nor when the brokers' metadata name it: then not a row is sent."""
    dialled = []

    def connect(servers, own):
        dialled.append(servers)
        return connect_producer(servers, own)

    publisher = Publisher([("localhost", 19092)], "usage", OWN, connect)
    with structlog.testing.capture_logs() as logs:
        publisher._log = structlog.get_logger()
        publisher.start()
        publisher.publish(*batch(tmp_path))
        while not logs:
            publisher._woken.wait(0.01)
        publisher.close(10)

    assert dialled[0] == []
    assert "this proxy itself" in logs[0]["reason"]
    assert publisher.lost == 3


@pytest.mark.parametrize(
    ("host", "port", "ours"),
    [
        ("proxy.example", 19093, True),
        ("localhost", 19092, True),
        ("127.0.0.1", 9092, False),
        ("kafka-1", 19092, False),
    ],
)
def test_whose_address_it_is(host: str, port: int, ours: bool) -> None:  # noqa: FBT001 - a table's column
    """One of our ports at a host that means us."""
    assert OWN.has(host, port) is ours
    inner = Producer()
    guarded = GuardedProducer(inner, lambda: [SimpleNamespace(host=host, port=port, nodeId=1)], OWN)
    if ours:
        with pytest.raises(OwnAddressError, match="broker 1"):
            guarded.send("t", value=b"v", key=b"k")
    else:
        guarded.send("t", value=b"v", key=b"k")
    assert bool(inner.sent) is not ours
