"""The real broker that all cases share: large messages allowed, and little kept on disk.

Rules: at 127.0.0.1, where the peers of `bench.variants` look for it. Its heap is large enough for a burst that nobody
bounds. What was written is deleted soon, or a minute of this would fill the disk.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.build import BenchError
from bench.memory.frames import MIB
from tests.support.java import KafkaUnavailableError, kafka_java
from tests.support.kafka_cluster import Broker, KafkaCluster
from tests.support.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAP: Final = "6g"
"""Where nobody bounds them, 200 requests of 16 MiB lie in it at once, and a third of it is not for such."""
NETWORK: Final = 0
"""Of the broker's address: 127.0.0.1."""
LARGEST_MESSAGE_BYTES: Final = 64 * MIB
SETTINGS: Final = {
    "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
    "replica.fetch.max.bytes": str(LARGEST_MESSAGE_BYTES),
    # A machine with all its cores busy must not cost the broker its own leadership.
    "broker.session.timeout.ms": "60000",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "500",
}
FLEETING: Final = {"retention_bytes": str(64 * MIB), "segment_bytes": str(64 * MIB)}
"""Of a topic that nobody reads."""


class Kafka:
    """One broker."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._topics = Topics(cluster.bootstrap, 1)

    @property
    def broker(self) -> Broker:
        """The one."""
        return self._cluster.brokers[1]

    @property
    def port(self) -> int:
        """At 127.0.0.1."""
        return self.broker.port

    @property
    def pid(self) -> int:
        """Its Java."""
        assert self.broker.process is not None, "the broker does not run"
        return self.broker.process.pid

    def topic(self, partitions: int = 1, **config: str) -> str:
        """The name of a new one."""
        return self._topics.make(partitions, **config)

    def restart(self) -> None:
        """With an empty heap."""
        self._cluster.stop_broker(1)
        self._cluster.start_broker(1)


@contextmanager
def running_kafka(folder: Path) -> Iterator[Kafka]:
    """A broker for as long as the block lasts.

    Raises:
        BenchError: there is no Java, or not Kafka's jars; says why.
    """
    try:
        java = kafka_java()
    except KafkaUnavailableError as error:
        raise BenchError(f"no real Kafka here: {error}") from error
    cluster = KafkaCluster(folder / "kafka", 1, NETWORK, java, settings=SETTINGS, heap=HEAP)
    try:
        cluster.start()
        yield Kafka(cluster)
    finally:
        cluster.stop()
