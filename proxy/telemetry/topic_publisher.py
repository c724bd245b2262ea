"""Publishes rows of the usage log to a Kafka topic: kafka-python, in a thread of its own, directly to the brokers.

Rules:
- Never through this proxy, which would log its own rows without end: neither as a bootstrap server nor as an advertised
  broker. Then nothing is published, and the log gives the reason.
- Callers never wait. A row that cannot be sent in time, or that exceeds MAX_PENDING_BYTES, is lost and counted.
- Delivery is at least once: (instance, boot, family, seq) identifies a row that arrives twice.
- The operator creates the topic. Sluice's own certificate and credentials (`upstream`) must be allowed to write to it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from proxy.config.values import ANY_ADDRESS, is_loopback
from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    Connect = Callable[
        [Sequence[tuple[str, int]], "OwnAddresses", Mapping[str, object]], "Producer"
    ]

CLIENT_ID: Final = "sluice-usage-log"
MAX_PENDING_BYTES: Final = 16 << 20
_RETRY_S: Final = 5.0
_BOOTSTRAP_MS: Final = 5_000
_BLOCK_MS: Final = 1_000


class OwnAddresses(NamedTuple):
    """The addresses of this proxy. `hosts`: what it binds and what it advertises."""

    hosts: Collection[str] = ()
    ports: Collection[int] = ()

    def includes(self, host: str, port: int) -> bool:
        """Return whether a connection to this address may reach this proxy; a loopback host counts."""
        is_here = host in self.hosts or host in ANY_ADDRESS or is_loopback(host)
        return port in self.ports and is_here


class OwnAddressError(Exception):
    """The address of a broker is the address of this proxy."""


class Future(Protocol):
    """The part of kafka-python's FutureRecordMetadata in use. One callback runs once, on any thread."""

    def add_callback(self, callback: Callable[[object], None]) -> object:
        """Call it when the brokers have the message."""

    def add_errback(self, callback: Callable[[BaseException], None]) -> object:
        """Call it when delivery has failed."""


class Producer(Protocol):
    """The part of kafka-python's KafkaProducer in use."""

    def send(self, topic: str, *, value: bytes, key: bytes) -> Future:
        """Queue a message."""

    def close(self, timeout: float) -> None:
        """Send what is queued for at most `timeout` seconds, then end."""


class Broker(Protocol):
    """The part of kafka-python's BrokerMetadata in use."""

    nodeId: int  # noqa: N815 - the library's name
    host: str
    port: int
    """The advertised port."""


class TopicPublisher:
    """Publishes to `topic`. `lost` counts the rows that were not delivered."""

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        topic: str,
        own: OwnAddresses,
        connect: Connect | None = None,
        security: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self.lost = 0
        self._servers = [server for server in servers if not own.includes(*server)]
        self._topic = topic
        self._own = own
        self._connect = connect or connect_producer
        self._security = security
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._put_bytes = 0  # ever put; each side writes its own count, so no lock is needed
        self._done_bytes = 0
        self._log = structlog.get_logger()
        self._fault = ""
        self._wake = Event()
        self._closing = False
        self._until = 0.0  # time.monotonic of the end, once it is near
        self._thread = Thread(target=self._run, name="usage-log-publisher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def publish(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Queue messages, each a key and a value. Never blocks."""
        for message in messages:
            value_bytes = len(message[1])
            if self._put_bytes - self._done_bytes + value_bytes > MAX_PENDING_BYTES:
                self.lost += 1
                continue
            self._put_bytes += value_bytes
            self._queue.append(message)
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Send what is queued for at most `timeout_s`; return False if the rest was lost."""
        self._until = time.monotonic() + timeout_s
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        producer: Producer | None = None
        while not self._closing:
            self._wake.wait()
            self._wake.clear()
            while self._queue and not self._closing:
                if producer is None:
                    producer = self._try_connect()
                    if producer is None:
                        continue
                self._send(producer)
        if producer is None and self._queue:
            producer = self._try_connect()
        if producer is not None:
            while self._queue and time.monotonic() < self._until:
                self._send(producer)
            # It may wait twice its timeout: for messages in flight, then for its own thread.
            producer.close(max(0.0, self._until - time.monotonic()) / 2.5)
        self.lost += len(self._queue)
        self._queue.clear()

    def _try_connect(self) -> Producer | None:
        try:
            producer = self._connect(self._servers, self._own, self._security())
        except Exception as error:  # noqa: BLE001 - any error of a client library: try again later
            self._log_fault(_described(error))
            self._wait(_RETRY_S)
            return None
        return producer

    def _send(self, producer: Producer) -> None:
        key, line = self._queue.popleft()
        try:
            future = producer.send(self._topic, value=line, key=key)
        except Exception as error:  # noqa: BLE001 - no such topic, no metadata, closed: the row is lost
            self._complete(len(line), _described(error))
            return
        future.add_callback(lambda _: self._complete(len(line), ""))
        future.add_errback(lambda error: self._complete(len(line), _described(error)))

    def _complete(self, size_bytes: int, fault: str) -> None:
        """Count a row that was delivered or, with a fault, was not."""
        self._done_bytes += size_bytes
        self.lost += bool(fault)
        self._log_fault(fault)

    def _log_fault(self, fault: str) -> None:
        """Log once when publishing begins to fail, and once when it works again."""
        if fault and not self._fault:
            self._log.warning("usage_log_not_published", topic=self._topic, reason=fault)
        elif self._fault and not fault:
            self._log.info("usage_log_published_again", topic=self._topic, lost=self.lost)
        self._fault = fault

    def _wait(self, seconds: float) -> None:
        """Wait until the time is over or `close` is called."""
        until = time.monotonic() + seconds
        while not self._closing and (left := until - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def connect_producer(
    servers: Sequence[tuple[str, int]], own: OwnAddresses, security: Mapping[str, object]
) -> Producer:
    """Return a kafka-python producer that refuses brokers which advertise this proxy.

    `security`: see `publisher_security`. Raises OwnAddressError if `servers` is empty, and any error of kafka-python.
    """
    if not servers:
        raise OwnAddressError("every bootstrap server is this proxy itself")
    from kafka import KafkaProducer  # type: ignore[import-untyped] # noqa: PLC0415 - it takes half a second to import
    from kafka.net.compat import KafkaNetClient  # type: ignore[import-untyped] # noqa: PLC0415 - the same

    logging.getLogger("kafka").addHandler(logging.NullHandler())  # our own log reports failures
    metadata: list[Callable[[], Collection[Broker]]] = []

    def make_client(**settings: object) -> object:
        client = KafkaNetClient(**settings)
        metadata.append(client.cluster.brokers)
        return client

    producer = KafkaProducer(
        bootstrap_servers=[host_port(host, port) for host, port in servers],
        client_id=CLIENT_ID,
        kafka_client=make_client,
        compression_type="gzip",
        linger_ms=100,
        max_block_ms=_BLOCK_MS,
        bootstrap_timeout_ms=_BOOTSTRAP_MS,
        delivery_timeout_ms=60_000,
        allow_auto_create_topics=False,
        metrics_enabled=False,
        **security,
    )
    return GuardedProducer(producer, metadata[0], own)


class GuardedProducer:
    """A producer that checks the advertised brokers before each message."""

    def __init__(
        self, producer: Producer, brokers: Callable[[], Collection[Broker]], own: OwnAddresses
    ) -> None:
        self._producer = producer
        self._brokers = brokers
        self._own = own

    def send(self, topic: str, *, value: bytes, key: bytes) -> Future:
        """Queue a message. Raises OwnAddressError if a broker advertises this proxy's address."""
        for broker in self._brokers():
            if self._own.includes(broker.host, broker.port):
                raise OwnAddressError(
                    f"broker {broker.nodeId} advertises this proxy's address, "
                    + host_port(broker.host, broker.port)
                )
        return self._producer.send(topic, value=value, key=key)

    def close(self, timeout: float) -> None:
        """Send what is queued for at most `timeout` seconds, then end."""
        self._producer.close(timeout=timeout)
