"""One real broker for all tests of a run: fixtures, which the conftest of a folder imports.

Without a Kafka the tests are skipped with the reason; with SLUICE_REQUIRE_KAFKA=1 (CI) that is a failure.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.net.inet import KafkaNetSocket

from tests.support.kafka.java import Java, KafkaUnavailableError, kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_jars import KAFKA_RELEASE
from tests.support.kafka.topics import Topics


def since(major: int, minor: int) -> pytest.MarkDecorator:
    """Return the mark of a test that older releases of Kafka skip."""
    reason = f"Kafka has it since {major}.{minor}"
    return pytest.mark.skipif((major, minor) > KAFKA_RELEASE, reason=reason)


class CollectedSocket(socket.socket):
    """A socket that closes without a warning when it is collected.

    kafka-python 3.0 forgets the socket of a connect that is interrupted: `kafka.net.inet` closes it in no case. Python
    closes it at a later garbage collection with a ResourceWarning, which fails another test.
    """

    def __del__(self) -> None:
        self.close()


KafkaNetSocket.socket = lambda _owner, *arguments, **named: CollectedSocket(*arguments, **named)


@pytest.fixture(scope="session")
def java() -> Java:
    """Java with Kafka's jars."""
    try:
        return kafka_java()
    except KafkaUnavailableError as error:
        if os.environ.get("SLUICE_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(f"no real Kafka here: {error}")


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the brokers and logs of this run."""
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="session")
def kafka_one(java: Java, work: Path) -> Iterator[KafkaCluster]:
    """One broker."""
    yield from running(KafkaCluster(work / "one", 1, 11, java))


@pytest.fixture(scope="session")
def topics_one(kafka_one: KafkaCluster) -> Topics:
    """Topics of the one broker."""
    return Topics(kafka_one.bootstrap, 1)


def running(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Start a cluster and stop it at the end."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
