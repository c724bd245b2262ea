"""No byte for a client names a broker, and no client connects to a broker but through Sluice.

Sluice advertises the address of a relay that keeps every byte on its way to the
clients. The brokers have addresses of their own, so the bytes can be searched for them.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.relay import Relay
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import (
    CONSUMER,
    IDEMPOTENT,
    PRODUCER,
    SHARE_CONSUMER,
    acked_values,
    config_file,
    consumed_values,
)
from tests.support.processes.connections import ConnectionWatch
from tests.support.processes.sluice_process import NODES, SluiceProcess

RELAY_ADDRESS = "127.0.12.1"
PARTITIONS = 6


@pytest.fixture
def sluice(kafka_three: KafkaCluster, tmp_path: Path) -> Iterator[SluiceProcess]:
    """A Sluice that sends its clients to the relay's address."""
    with SluiceProcess(kafka_three.bootstrap, tmp_path, advertise=RELAY_ADDRESS) as sluice:
        yield sluice


@pytest.fixture
def relay(sluice: SluiceProcess) -> Iterator[Relay]:
    """The relay before every port of Sluice."""
    ports = range(sluice.port, sluice.port + 1 + NODES)
    with Relay(
        [(RELAY_ADDRESS, port) for port in ports], [(sluice.address, port) for port in ports]
    ) as relay:
        yield relay


@since(4, 2)  # groups of KIP-848, and share groups
@pytest.mark.parametrize("clients", ["Python", pytest.param("and Java", marks=pytest.mark.slow)])
def test_no_client_learns_where_a_broker_is(
    clients: str,
    sluice: SluiceProcess,
    relay: Relay,
    kafka_three: KafkaCluster,
    topics_three: Topics,
    java: Java,
) -> None:
    """Python and Java clients with every kind of group, transactions and administration receive no broker address."""
    prefix = kafka_three.address_prefix
    topic = topics_three.make(PARTITIONS)
    brokers = kafka_three.brokers.values()
    # Another run on this machine may have brokers at the same hosts.
    listening = {
        (each.host, port) for each in brokers for port in (each.port, *each.further.values())
    }
    with ConnectionWatch(listening) as watch:
        _run_python_clients(sluice.bootstrap, topic)
        if clients == "and Java":
            _run_java_clients(java, sluice.bootstrap, topic, prefix.decode())
    received = relay.bytes_to_clients()
    assert len(received) > 10_000
    where = received.find(prefix)
    assert where < 0, f"a client received {received[max(0, where - 80) : where + 80]!r}"
    used = {port for port, count in relay.accepted.items() if count}
    assert used >= {sluice.port, *(sluice.node_port(node) for node in kafka_three.brokers)}
    # Only this process (topics) and Sluice may connect to the brokers.
    assert watch.pids - kafka_three.pids() - {os.getpid()} <= {sluice.pid}


@pytest.mark.slow
def test_a_client_with_stale_metadata_is_not_shown_the_new_leader(
    sluice: SluiceProcess,
    relay: Relay,
    kafka_three: KafkaCluster,
    topics_three: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """Leaders move under Java clients: the hints in Produce and ShareFetch replies (KIP-951) name only Sluice."""
    topic = topics_three.make(PARTITIONS)
    server = ("--bootstrap-server", sluice.bootstrap, "--topic", topic)
    config = config_file(tmp_path / "producer.properties", IDEMPOTENT)
    written, read = tmp_path / "producer.out", tmp_path / "consumer.out"
    tools = [
        java.start_tool(
            PRODUCER, *server, "--throughput", "300", "--command-config", config, output=written
        ),
        java.start_tool(
            SHARE_CONSUMER,
            *(*server, "--verbose", "--group-id", f"s-{uuid.uuid4()}"),
            *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
            output=read,
        ),
    ]
    try:
        await_that(lambda: b"record_data" in read.read_bytes(), "the first records read")
        for leader in (1, 2, 3, 1):
            topics_three.lead(topic, PARTITIONS, leader)
            wanted = written.stat().st_size + 20_000  # some 150 acks
            await_that(lambda: written.stat().st_size > wanted, "more acks")  # noqa: B023 - called at once
    finally:
        for tool in tools:
            tool.terminate()
        for tool in tools:
            tool.wait(60)
    received = relay.bytes_to_clients()
    assert kafka_three.address_prefix not in received
    acked = acked_values(written.read_text())
    stored = [record.value.decode() for record in topics_three.contents(topic)]
    assert len(stored) == len(set(stored)) >= len(acked) > 500
    assert set(acked) <= set(stored)


def _run_python_clients(bootstrap: str, topic: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kafka.every_client", bootstrap, topic],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _run_java_clients(java: Java, bootstrap: str, topic: str, prefix: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    acked = acked_values(
        java.run_tool(PRODUCER, *server, "--topic", topic, "--max-messages", "600")
    )
    assert len(acked) == 600
    count = ("--topic", topic, "--verbose", "--max-messages", "600")
    for more in ([], ["--group-protocol", "consumer"]):
        said = java.run_tool(CONSUMER, *server, *count, "--group-id", f"g-{uuid.uuid4()}", *more)
        assert len(consumed_values(said)) >= 600
    java.run_tool(
        SHARE_CONSUMER,
        *(*server, *count, "--group-id", f"s-{uuid.uuid4()}"),
        *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
    )
    for tool, *arguments in (
        ("MetadataQuorumCommand", "describe", "--status"),
        ("BrokerApiVersionsCommand",),
        ("TopicCommand", "--describe", "--topic", topic),
        ("consumer.group.ConsumerGroupCommand", "--describe", "--all-groups"),
    ):
        said = java.run_tool(f"org.apache.kafka.tools.{tool}", *server, *arguments)
        assert prefix not in said
