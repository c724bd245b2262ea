"""A policy's cap on versions, with a real Kafka: three client libraries use the capped version, and work."""

from pathlib import Path

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.three_libraries import LIBRARIES, move
from tests.support.kafka.topics import Topics
from tests.support.plugins import witness
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import ApiKey

CAPS = {ApiKey.PRODUCE: 7, ApiKey.FETCH: 11}
"""Below the flexible versions: no library chooses them by itself today."""


def test_clients_use_the_capped_versions(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """Each library writes and reads its records in exactly the highest version that is left."""
    variables, seen = witness.install(tmp_path, CAPS)
    topic = Topics(kafka_one.bootstrap, 1).make()
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", variables=variables) as sluice:
        clients = {
            move(library, kafka_java(), sluice.bootstrap, topic, ClientSecurity(), tmp_path)
            for library in LIBRARIES
        }

    used = {
        (each.client_id, each.api, each.version)
        for each in seen.all()
        if each.client_id in clients and each.api in {"Produce", "Fetch"}
    }
    expected = {
        (client, api, version)
        for client in clients
        for api, version in (("Produce", 7), ("Fetch", 11))
    }
    assert used == expected
