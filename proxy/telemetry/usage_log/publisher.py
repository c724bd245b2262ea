"""Rows to a Kafka topic as well: kafka-python, in a thread of its own, straight to the brokers.

Rules:
- Never through this proxy: not its address as a bootstrap server, and not when the brokers advertise it. Then
  nothing is published, and the log says why; rows about rows would never end.
- Nobody waits for it: what cannot be sent in time, or is more than PENDING_MOST_BYTES behind, is lost and counted.
- The value is the row as it stands in the files, the key `instance|user|client_id`. At least once: (instance,
  boot, family, seq) tells a row that came twice.
- The topic is made by its operator, not by us. Only brokers that want no authentication can be published to.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from proxy.telemetry.usage_log.rows import Row

CLIENT_ID: Final = "sluice-usage-log"
PENDING_MOST_BYTES: Final = 16 << 20
_RETRY_S: Final = 5.0
_BOOTSTRAP_MS: Final = 5_000
_BLOCK_MS: Final = 1_000
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 - names to be recognised


class Own(NamedTuple):
    """Where this proxy itself listens. `hosts`: what it binds and what it tells clients."""

    hosts: Collection[str] = ()
    ports: Collection[int] = ()

    def has(self, host: str, port: int) -> bool:
        """Whether who dials this reaches us. In doubt yes: any host that means this machine."""
        return port in self.ports and (host in self.hosts or host in _LOOPBACK)


class OwnAddressError(Exception):
    """The brokers are reached through this proxy only."""


class Future(Protocol):
    """What is used of what a KafkaProducer promises: one of the two is called, on whichever thread."""

    def add_callback(self, callback: Callable[[object], None]) -> object:
        """When the row has got there."""

    def add_errback(self, callback: Callable[[BaseException], None]) -> object:
        """When it never will."""


class Sending(Protocol):
    """What is used of a KafkaProducer."""

    def send(self, topic: str, *, value: bytes, key: bytes) -> Future:
        """Queue it."""

    def close(self, timeout: float) -> None:
        """Send what is queued, for so long, and end."""


class Node(Protocol):
    """What is used of a broker in kafka-python's metadata."""

    @property
    def nodeId(self) -> int:  # noqa: N802 - the library's name
        """Its id."""

    @property
    def host(self) -> str:
        """As the brokers advertise it."""

    @property
    def port(self) -> int:
        """As the brokers advertise it."""


class Publisher:
    """See the module. An `Outlet` of the Scribe."""

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        topic: str,
        own: Own,
        connect: Callable[[Sequence[tuple[str, int]], Own], Sending] | None = None,
    ) -> None:
        self.lost = 0
        self._servers = [server for server in servers if not own.has(*server)]
        self._topic = topic
        self._own = own
        self._connect = connect or connect_producer
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._put_bytes = 0  # ever; each side has its own count, so there is no lock
        self._done_bytes = 0
        self._pending_bytes = 0  # given to the producer and not acknowledged
        self._log = structlog.get_logger()
        self._fault = ""
        self._woken = Event()
        self._closing = False
        self._until = 0.0  # time.monotonic of the end, once it is near
        self._thread = Thread(target=self._run, name="usage-log-publisher", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def publish(self, rows: Sequence[Row], lines: bytes) -> None:
        """See Outlet."""
        for row, line in zip(rows, lines.split(b"\n"), strict=False):
            if self._put_bytes - self._done_bytes + len(line) > PENDING_MOST_BYTES:
                self.lost += 1
                continue
            names = (row.instance, getattr(row, "user", ""), getattr(row, "client_id", ""))
            self._put_bytes += len(line)
            self._queue.append(("|".join(names).encode(), line))
        self._woken.set()

    def close(self, timeout_s: float) -> bool:
        """Send what is queued, for so long at most; False: what was left is lost."""
        self._until = time.monotonic() + timeout_s
        self._closing = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        producer: Sending | None = None
        while not self._closing:
            self._woken.wait()
            self._woken.clear()
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
            # It waits twice that long if it has to: once for what is sent, once for its own thread.
            producer.close(max(0.0, self._until - time.monotonic()) / 2.5)
        self.lost += len(self._queue)
        self._queue.clear()

    def _try_connect(self) -> Sending | None:
        try:
            producer = self._connect(self._servers, self._own)
        except Exception as error:  # noqa: BLE001 - whatever a client library raises: later is another try
            self._tell(f"{type(error).__name__}: {error}")
            self._wait(_RETRY_S)
            return None
        return producer

    def _send(self, producer: Sending) -> None:
        key, line = self._queue.popleft()
        try:
            future = producer.send(self._topic, value=line, key=key)
        except Exception as error:  # noqa: BLE001 - no such topic, no metadata, closed: the row is lost
            self._over(len(line), f"{type(error).__name__}: {error}")
            return
        future.add_callback(lambda _: self._over(len(line), ""))
        future.add_errback(lambda error: self._over(len(line), f"{type(error).__name__}: {error}"))

    def _over(self, size_bytes: int, fault: str) -> None:
        """A row has got there, or never will."""
        self._done_bytes += size_bytes
        self.lost += bool(fault)
        self._tell(fault)

    def _tell(self, fault: str) -> None:
        """Once when it begins to fail, and once when it is well again."""
        if fault and not self._fault:
            self._log.warning("usage_log_not_published", topic=self._topic, reason=fault)
        elif self._fault and not fault:
            self._log.info("usage_log_published_again", topic=self._topic, lost=self.lost)
        self._fault = fault

    def _wait(self, seconds: float) -> None:
        """Unless it is to end."""
        until = time.monotonic() + seconds
        while not self._closing and (left := until - time.monotonic()) > 0:
            self._woken.wait(left)
            self._woken.clear()


def connect_producer(servers: Sequence[tuple[str, int]], own: Own) -> Sending:
    """A kafka-python producer that refuses to work when the brokers advertise this proxy."""
    if not servers:
        raise OwnAddressError("every bootstrap server is this proxy itself")
    from kafka import KafkaProducer  # type: ignore[import-untyped] # noqa: PLC0415 - half a second, and only for who publishes
    from kafka.net.compat import KafkaNetClient  # type: ignore[import-untyped] # noqa: PLC0415 - the same

    logging.getLogger("kafka").addHandler(logging.NullHandler())  # the log gets our own words
    metadata: list[Callable[[], Collection[Node]]] = []

    def make_client(**settings: object) -> object:
        client = KafkaNetClient(**settings)
        metadata.append(client.cluster.brokers)
        return client

    producer = KafkaProducer(
        bootstrap_servers=[
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers
        ],
        client_id=CLIENT_ID,
        kafka_client=make_client,
        compression_type="gzip",
        linger_ms=100,
        max_block_ms=_BLOCK_MS,
        bootstrap_timeout_ms=_BOOTSTRAP_MS,
        delivery_timeout_ms=60_000,
        allow_auto_create_topics=False,
        metrics_enabled=False,
    )
    return GuardedProducer(producer, metadata[0], own)


class GuardedProducer:
    """Looks before each row at whom the cluster's metadata name."""

    def __init__(
        self, producer: Sending, brokers: Callable[[], Collection[Node]], own: Own
    ) -> None:
        self._producer = producer
        self._brokers = brokers
        self._own = own

    def send(self, topic: str, *, value: bytes, key: bytes) -> Future:
        """See Sending. Raises OwnAddressError."""
        for broker in self._brokers():
            if self._own.has(broker.host, broker.port):
                raise OwnAddressError(f"broker {broker.nodeId} is advertised as this proxy")
        return self._producer.send(topic, value=value, key=key)

    def close(self, timeout: float) -> None:
        """See Sending."""
        self._producer.close(timeout=timeout)
