"""Clients: what is acked is entered, what is not has failed; records are read back in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.demo import clients
from proxy.demo.clients import Client, ReadBack
from proxy.demo.cluster import start_brokers
from proxy.demo.processes import ChildProcess, ClientReady, ClusterReady
from proxy.demo.roles import POLITE, ROLES


@pytest.fixture
def cluster() -> Iterator[ClusterReady]:
    """An embedded cluster in this process."""
    owner, ready = start_brokers()
    yield ready
    del owner


def test_every_record_is_acked_and_read_back(cluster: ClusterReady) -> None:
    """A client knows the brokers; each record is in its books once, in order, and none is missing."""
    client = Client(POLITE, cluster.brokers[1], cluster.topic, ROLES[POLITE])

    for _ in range(3):
        client.warm_up()
    result = client.result()

    assert client.brokers == cluster.brokers
    assert (result.acked, result.failed) == (3 * cluster.partitions, 0)
    assert (result.lost, result.out_of_order) == (0, 0)


ENDS_WITHOUT_BROKERS = """
import sys
from proxy.demo import clients
from proxy.demo.processes import ClientReady, send
client = clients.Client("polite", *sys.argv[1:], clients.ROLES["polite"])
clients.TIMEOUT_S = 0.1
send(ClientReady({}))
sys.stdin.read()
client.warm_up()
send(client.result())
"""


def test_a_client_ends_without_its_brokers(tmp_path: Path) -> None:
    """Records that no broker answers have failed; the client waits for them for its timeout only, and ends."""
    owner, cluster = start_brokers()
    command = ["-c", ENDS_WITHOUT_BROKERS, cluster.brokers[1], cluster.topic]
    with ChildProcess("polite", command, tmp_path) as child:
        child.expect(ClientReady)
        del owner
        result = child.finish()
        code = child.process.wait(60)

    assert (result.acked, result.failed, code) == (0, cluster.partitions, 0)


def test_lost_and_swapped_records_are_counted(
    cluster: ClusterReady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that comes after a larger one of its partition is out of order; one that never comes is lost."""
    from confluent_kafka import Producer  # noqa: PLC0415 - as in the module

    settings: dict[str, object] = {"bootstrap.servers": cluster.brokers[1]}
    producer = Producer(settings)
    for key in (b"0", b"2", b"1"):
        producer.produce(cluster.topic, b"x", key, 0)
    producer.flush(30)
    book = ReadBack(settings, cluster.topic, cluster.partitions)
    for number in (0, 2, 3):
        book.on_ack(0, number)

    while not book.out_of_order:
        book.read()
    monkeypatch.setattr(clients, "TIMEOUT_S", 0)

    assert (book.finish(), book.out_of_order) == (1, 1)
