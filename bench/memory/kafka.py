"""The real broker that all cases share: it allows large messages and keeps little on disk.

It listens on 127.0.0.1, as the peers of `bench.variants` expect. Its heap is large enough for an unbounded burst. Its
log is deleted early, because a minute of load would fill the disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.harness import BenchError
from bench.memory.frames import MIB
from tests.support.kafka.java import KafkaUnavailableError, kafka_java
from tests.support.kafka.kafka_cluster import Broker, KafkaCluster
from tests.support.kafka.topics import Topics

HEAP: Final = "6g"
"""An unbounded burst puts 200 requests of 16 MiB into it at once; a third of the heap cannot hold such."""
NETWORK: Final = 0
"""The third byte of the broker's address, 127.0.0.1."""
LARGEST_MESSAGE_BYTES: Final = 64 * MIB
SETTINGS: Final = {
    "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
    "replica.fetch.max.bytes": str(LARGEST_MESSAGE_BYTES),
    # The broker must not lose its leadership while all cores are busy.
    "broker.session.timeout.ms": "60000",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "500",
}
FLEETING: Final = {"retention_bytes": str(64 * MIB), "segment_bytes": str(64 * MIB)}
"""The settings of a topic without consumers."""


class Kafka:
    """A cluster of one broker."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._topics = Topics(cluster.bootstrap, 1)

    @property
    def broker(self) -> Broker:
        """Return the broker."""
        return self._cluster.brokers[1]

    @property
    def port(self) -> int:
        """Return its port on 127.0.0.1."""
        return self.broker.port

    @property
    def pid(self) -> int:
        """Return the id of its Java process."""
        assert self.broker.process is not None, "the broker does not run"
        return self.broker.process.pid

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic; return its name."""
        return self._topics.make(partitions, **config)

    def restart(self) -> None:
        """Restart the broker, which empties its heap."""
        self._cluster.stop_broker(1)
        self._cluster.start_broker(1)


@contextmanager
def running_kafka(folder: Path) -> Iterator[Kafka]:
    """Run a broker for the duration of the block.

    Raises:
        BenchError: Java or Kafka's jars are missing.
    """
    try:
        java = kafka_java()
    except KafkaUnavailableError as error:
        raise BenchError(f"Kafka cannot run here: {error}") from error
    cluster = KafkaCluster(folder / "kafka", 1, NETWORK, java, settings=SETTINGS, heap=HEAP)
    try:
        cluster.start()
        yield Kafka(cluster)
    finally:
        cluster.stop()
