"""Clients that say which broker they mean, before real brokers: any other sends them to their bootstrap servers."""

import socket
import struct
from pathlib import Path

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, acked_values, config_file
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.processes.sluice_process import SluiceProcess
from wire import codec
from wire.apis import ApiKey
from wire.schema import make_message

V5 = api_of(ApiKey.API_VERSIONS, 5)
RIGHT, INVALID, REBOOTSTRAP = 0, 42, 129

pytestmark = since(4, 4)


def ask(host: str, port: int, cluster_id: str | None, node_id: int) -> int:
    """Return the error code that a client gets which means this broker."""
    values = {"cluster_id": cluster_id, "node_id": node_id, "client_software_name": "tests",
              "client_software_version": "1"}  # fmt: skip
    body = codec.encode(make_message(codec.request_shape(V5), 0, values))
    with socket.create_connection((host, port), timeout=60) as client:
        client.sendall(f.request(V5.key, V5.version, 1, body, tagged=True))
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            more = client.recv(1 << 16)
            assert more, f"closed after {data!r}"
            data += more
    return codec.decode_response(V5, data[8:]).error_code  # type: ignore[attr-defined, no-any-return] # of v5


def cluster_of(cluster: KafkaCluster) -> str:
    """Return the id of a cluster, as its brokers keep it."""
    text = (cluster.brokers[1].directory / "data" / "meta.properties").read_text()
    return next(line.partition("=")[2] for line in text.splitlines() if "cluster.id=" in line)


def test_a_client_is_served_by_the_broker_that_it_means_and_by_no_other(
    kafka_three: KafkaCluster, kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """As by a broker itself: at the ports of nodes, at the bootstrap port, and where another cluster has taken them."""
    ours, theirs = cluster_of(kafka_three), cluster_of(kafka_one)
    bootstrap = kafka_three.brokers[1].address
    with SluiceProcess(bootstrap, tmp_path / "sluice") as sluice:
        for host, port in (
            ("127.0.0.1", sluice.node_port(2)),
            (kafka_three.brokers[2].host, kafka_three.brokers[2].port),
        ):
            assert ask(host, port, ours, 2) == ask(host, port, None, -1) == RIGHT
            assert ask(host, port, ours, 3) == ask(host, port, theirs, 2) == REBOOTSTRAP
            assert ask(host, port, None, 2) == ask(host, port, ours, -1) == INVALID
        assert ask("127.0.0.1", sluice.port, ours, 1) == RIGHT  # it has led to broker 1
        assert ask("127.0.0.1", sluice.port, ours, 2) == REBOOTSTRAP
        assert ask("127.0.0.1", sluice.port, ours, 70) == RIGHT  # it has no port of its own
        sluice.stop()
        sluice.upstream = kafka_one.bootstrap
        sluice.start()
        assert ask("127.0.0.1", sluice.node_port(1), ours, 1) == REBOOTSTRAP
        assert ask("127.0.0.1", sluice.node_port(1), theirs, 1) == RIGHT


@pytest.mark.slow
def test_a_java_producer_goes_on_where_its_ports_become_those_of_other_nodes(
    kafka_three: KafkaCluster, topics_three: Topics, java: Java, tmp_path: Path
) -> None:
    """It comes back to a port that stands for another node now, bootstraps again, and loses no record."""
    topic = topics_three.make(6)
    said = tmp_path / "producer.out"

    def acked() -> int:
        return said.read_text().count("producer_send_success")

    with SluiceProcess(kafka_three.bootstrap, tmp_path / "sluice") as sluice:
        producer = java.start_tool(
            PRODUCER,
            *("--bootstrap-server", sluice.bootstrap, "--topic", topic, "--throughput", "500"),
            *("--acks", "-1"),
            *("--command-config", config_file(tmp_path / "p", {"retries": "1000000"})),
            output=said,
        )
        try:
            await_that(acked, "the first record")
            sluice.stop()
            # Node 2 is at the port that node 1 had, and so on.
            sluice.listen_settings = {"nodes": "1-8"}
            sluice.start()
            enough = acked() + 1000
            await_that(lambda: acked() >= enough, "records at the other ports")
            producer.terminate()
            producer.wait(60)
        finally:
            producer.kill()
            producer.wait()
    values = acked_values(said.read_text())
    assert sorted(map(int, values)) == list(range(len(values)))
