"""Rows of the usage log in a Kafka topic."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace

import pytest
import structlog

from proxy.telemetry import topic_publisher
from proxy.telemetry.topic_publisher import (
    GuardedProducer,
    OwnAddressError,
    OwnAddresses,
    TopicPublisher,
    connect_producer,
)

OWN = OwnAddresses(("127.0.0.1", "proxy.example"), frozenset({19092, 19093}))
BROKERS = [("kafka-1", 9092)]
MESSAGES = [(b"pod-7|alice|c%d" % n, b'{"seq":%d}' % n) for n in range(3)]


class FakeFuture:
    """The future of a message that was delivered or failed."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def add_callback(self, call: Callable[[object], None]) -> None:
        if self._error is None:
            call(None)

    def add_errback(self, call: Callable[[Exception], None]) -> None:
        if self._error is not None:
            call(self._error)


class FakeProducer:
    """A producer that takes everything, fails everything, or hangs."""

    def __init__(self, error: Exception | None = None, hang: Event | None = None) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.closed = Event()
        self.took_all = Event()
        self.error = error
        self._hang = hang

    def send(self, topic: str, *, value: bytes, key: bytes) -> FakeFuture:
        if self._hang is not None:
            assert self._hang.wait(120), "the test never released the producer"
        self.sent.append((topic, key, value))
        if len(self.sent) == len(MESSAGES):
            self.took_all.set()
        return FakeFuture(self.error)

    def close(self, timeout: float) -> None:
        self.closed.set()


def publisher_of(producer: FakeProducer) -> TopicPublisher:
    return TopicPublisher(BROKERS, "usage", OWN, lambda *_: producer)


def test_each_row_is_a_message() -> None:
    """Keys and values reach the topic unchanged and in order."""
    producer = FakeProducer()
    publisher = publisher_of(producer)
    publisher.start()
    publisher.publish(MESSAGES)

    assert publisher.close(10)
    assert producer.closed.is_set()
    assert producer.sent == [("usage", key, value) for key, value in MESSAGES]
    assert publisher.lost == 0


def test_rows_that_are_not_delivered_are_counted() -> None:
    """If brokers refuse rows, each is counted and one event is logged."""
    with structlog.testing.capture_logs() as logs:
        publisher = publisher_of(FakeProducer(RuntimeError("no such topic")))
        publisher.start()
        publisher.publish(MESSAGES)
        publisher.close(10)

    assert publisher.lost == 3
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("usage_log_not_published", "RuntimeError: no such topic")
    ]


def test_unreachable_brokers_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wait for a later attempt to connect, and none is lost."""
    monkeypatch.setattr(topic_publisher, "_RETRY_S", 0.05)
    producer, attempts = FakeProducer(), []

    def connect(*_: object) -> FakeProducer:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError("refused")
        return producer

    publisher = TopicPublisher(BROKERS, "usage", OWN, connect)
    publisher.start()
    publisher.publish(MESSAGES)
    assert producer.took_all.wait(60)
    publisher.close(10)

    assert len(attempts) == 3
    assert publisher.lost == 0


def test_a_producer_that_hangs_blocks_no_caller() -> None:
    """`publish` returns at once and `close` after its timeout while the producer hangs."""
    hang = Event()
    publisher = publisher_of(FakeProducer(hang=hang))
    publisher.start()
    publisher.publish(MESSAGES)
    publisher.publish(MESSAGES)
    assert not publisher.close(0.05)

    assert not hang.is_set()  # both returned while it hangs
    hang.set()


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond MAX_PENDING_BYTES are lost and counted."""
    monkeypatch.setattr(topic_publisher, "MAX_PENDING_BYTES", 4 * len(MESSAGES[0][1]) + 1)
    producer = FakeProducer()
    publisher = publisher_of(producer)
    publisher.publish(MESSAGES)
    publisher.publish(MESSAGES)  # not started: nothing has left the queue
    publisher.start()

    assert publisher.close(60)
    assert publisher.lost == 2
    assert len(producer.sent) == 4


def test_the_proxy_never_publishes_to_itself() -> None:
    """The proxy's own address is not used as a bootstrap server, and the log says why nothing is published."""
    dialled = []

    def connect(servers, own, security):
        dialled.append(servers)
        return connect_producer(servers, own, security)

    with structlog.testing.capture_logs() as logs:
        publisher = TopicPublisher([("localhost", 19092)], "usage", OWN, connect)
        publisher.start()
        publisher.publish(MESSAGES)
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
def test_own_addresses_are_recognised(host: str, port: int, ours: bool) -> None:  # noqa: FBT001 - a table's column
    """One of our ports at one of our hosts or a loopback host is ours; a guarded producer refuses it."""
    assert OWN.includes(host, port) is ours
    inner = FakeProducer()
    guarded = GuardedProducer(inner, lambda: [SimpleNamespace(host=host, port=port, nodeId=1)], OWN)
    if ours:
        with pytest.raises(OwnAddressError, match="broker 1"):
            guarded.send("t", value=b"v", key=b"k")
    else:
        guarded.send("t", value=b"v", key=b"k")
    assert bool(inner.sent) is not ours
