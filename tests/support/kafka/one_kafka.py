"""One real broker for all tests of a run: fixtures, which the conftest of a folder imports.

Without a Kafka the tests are skipped with the reason; with SLUICE_REQUIRE_KAFKA=1 (CI) that is a failure.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka import kafka_python_sockets
from tests.support.kafka.java import Java, KafkaUnavailableError, kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics

kafka_python_sockets.install()


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
