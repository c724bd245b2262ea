"""A broker that hangs or resets: the client's connection is closed, and no reply is invented."""

import socket
import time
from pathlib import Path

from bench.harness.ports import free_ports
from tests.support.faults.relay import Relay
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.messages.raw import api_versions_request, receive_until_closed
from tests.support.processes.sluice_process import SluiceProcess

BROKEN = "127.0.13.1"


def test_a_dial_that_hangs_ends_at_its_timeout(tmp_path: Path) -> None:
    """A full backlog accepts no connection: the client is closed at socket_connection_setup_timeout_ms."""
    with socket.socket() as listener:
        listener.bind((BROKEN, free_ports(BROKEN)))
        listener.listen(0)
        fillers = []
        for _ in range(4):  # beyond the backlog a connect hangs
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        host, port = listener.getsockname()
        with SluiceProcess(
            f"{host}:{port}", tmp_path, {"socket_connection_setup_timeout_ms": 700}
        ) as sluice:
            began = time.monotonic()
            assert _ask(sluice) == b""
            assert time.monotonic() - began > 0.6
        for filler in fillers:
            filler.close()


def test_a_reset_upstream_closes_the_client(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """The broker's side is reset during a request: the client is closed without a byte, and may connect again."""
    broker = kafka_one.brokers[1]
    port = free_ports(BROKEN)
    with (
        Relay([(BROKEN, port)], [(broker.host, broker.port)]) as relay,
        SluiceProcess(f"{BROKEN}:{port}", tmp_path) as sluice,
    ):
        with (
            kafka_one.paused(1),
            socket.create_connection((sluice.address, sluice.port), 60) as client,
        ):
            client.sendall(api_versions_request(1))
            await_that(lambda: relay.bytes_from_clients > 0, "the request to be on its way")
            relay.cut()
            assert receive_until_closed(client) == b""
        assert len(_ask(sluice, until_closed=False)) > 4


def _ask(sluice: SluiceProcess, *, until_closed: bool = True) -> bytes:
    """Return the bytes that answer one ApiVersions request."""
    with socket.create_connection((sluice.address, sluice.port), timeout=60) as client:
        client.sendall(api_versions_request(1))
        return receive_until_closed(client) if until_closed else client.recv(65536)
