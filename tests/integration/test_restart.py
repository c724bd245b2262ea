"""Sluice crashes, restarts or is drained under clients that keep their cached metadata."""

import socket
import struct
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.harness.ports import accepts
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import GroupReader, LoadProducer
from tests.support.kafka.topics import Topics
from tests.support.messages.raw import api_versions_request, receive
from tests.support.processes.connections import peers_of
from tests.support.processes.sluice_process import SluiceProcess

PARTITIONS = 6


@pytest.fixture
def sluice(kafka_three: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice of this test's own."""
    with SluiceProcess(kafka_three.bootstrap, tmp_path) as sluice:
        yield sluice


def test_clients_continue_after_a_crash(sluice: SluiceProcess, topics_three: Topics) -> None:
    """Killed and started three times: same ports, same clients, no record lost or repeated."""
    topic = topics_three.make(PARTITIONS)
    with GroupReader(sluice.bootstrap, topic, f"g-{uuid.uuid4()}") as reader:
        with LoadProducer(sluice.bootstrap, topic, PARTITIONS) as producer:
            for _ in range(3):
                producer.await_acks(400)
                sluice.kill()
                sluice.start()
            producer.await_acks(400)
        reader.await_values(set(producer.acked))
    producer.reckon(topics_three.contents(topic))


def test_every_port_listens_when_the_first_does(sluice: SluiceProcess) -> None:
    """Clients with cached metadata connect to node ports first, so all are bound before the bootstrap port accepts."""
    for _ in range(3):
        sluice.kill()
        sluice.start()
        assert all(accepts(sluice.address, sluice.node_port(node)) for node in range(8))


def test_a_node_port_works_before_any_metadata(
    sluice: SluiceProcess, kafka_three: KafkaCluster
) -> None:
    """The first connection goes to node 3's port: Sluice looks up node 3's address and connects."""
    with socket.create_connection((sluice.address, sluice.node_port(3)), timeout=60) as client:
        client.sendall(api_versions_request(correlation_id=77))
        (size,) = struct.unpack(">i", receive(client, 4))
        correlation_id, error_code = struct.unpack_from(">ih", receive(client, size))
        assert (correlation_id, error_code) == (77, 0)
        broker = kafka_three.brokers[3]
        assert (broker.host, broker.port) in peers_of(sluice.pid)


def test_a_drain_finishes_requests_in_flight(sluice: SluiceProcess, topics_three: Topics) -> None:
    """SIGTERM under load: exit code 0, and producers that never retry got the reply for each written record."""
    topics = [topics_three.make(PARTITIONS) for _ in range(4)]
    with ExitStack() as stack:
        producers = [
            stack.enter_context(
                LoadProducer(sluice.bootstrap, topic, PARTITIONS, rate=300, idempotent=False)
            )
            for topic in topics
        ]
        for producer in producers:
            producer.await_acks(300)
        sluice.terminate()
        sluice.await_exit()
        for producer in producers:
            producer.abandon()
    for producer, topic in zip(producers, topics, strict=True):
        written = {int(record.value) for record in topics_three.contents(topic)}
        assert written - producer.acked.keys() == set(), "written, but its client was not told"
        assert producer.acked.keys() - written == set(), "acked, but lost"


def test_an_idle_sluice_drains_at_once(sluice: SluiceProcess) -> None:
    """Idle clients do not delay it: connections without a request in flight are closed."""
    with socket.create_connection((sluice.address, sluice.port), timeout=60) as client:
        client.sendall(api_versions_request(correlation_id=1))
        (size,) = struct.unpack(">i", receive(client, 4))
        receive(client, size)
        sluice.terminate()
        assert client.recv(1) == b"", "closed gracefully, not reset"
    sluice.await_exit()
