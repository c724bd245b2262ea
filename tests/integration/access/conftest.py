"""A Kafka with an authorizer, prepared once for the tests of this folder."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.access.attempts import CLERK, MALLORY
from tests.support.access.guarded_kafka import guarded_kafka, guarding_sluice, prepare
from tests.support.access.real_clients import Guarded
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster

NETWORK: Final = 39
USERS: Final = (MALLORY, CLERK)


class Prepared(NamedTuple):
    """A cluster with topics, groups and transactions."""

    cluster: KafkaCluster
    topic_ids: dict[str, uuid.UUID]


@pytest.fixture(scope="package")
def prepared(java: Java, work: Path) -> Iterator[Prepared]:
    """Its broker gives no user any right; the super user is who comes by the plain listener."""
    cluster = guarded_kafka(work / "guarded", NETWORK, java, USERS)
    try:
        cluster.start()
        yield Prepared(cluster, prepare(cluster))
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def guarded(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Sluice, which refuses mallory everything at first."""
    folder = tmp_path_factory.mktemp("clients")
    rules = {"rules": [{"who": ["nobody"], "cluster": ["describe"]}]}
    with guarding_sluice(prepared.cluster, folder, USERS, rules) as sluice:
        yield Guarded(sluice)
