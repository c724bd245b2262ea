"""T28: a reply that names false brokers: foreign ids, thousands of nodes, hosts with NUL bytes, impossible ports.

Only nodes of the declared range are stored and dialled, and only at a host and port that can be dialled. Of other ids
1,000 are remembered. No host of a reply reaches a client.
"""

import socket
import struct
from pathlib import Path

import pytest
import structlog

from proxy.core.errors import CloseReason
from proxy.core.topology import UNMAPPED_MAX
from proxy.telemetry.line_limits import LIMITS, LineLimits
from proxy.telemetry.log import LogObserver
from tests.support.core.sessions import Wire, make_engine
from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import tell
from tests.support.processes.sluice_process import SluiceProcess

DECLARED = range(4)
MANY = 240_000
EVIL = b"evil.example"
FOREIGN_IDS = (4, 5, 99, 1000, 2**16, 2**31 - 1, -2, -1000, -(2**31))
BAD_PORTS = (0, -1, 65_536, 70_000, 2**31 - 1, -(2**31))
BAD_HOSTS = (b"evil\0.example", b"\0", b"evil.example\0")
STRANGE_HOSTS = (
    *(
        b"evil.example\r\nX: y",
        b"\x1b[2J",
        b"evil.example ",
        b"\xff\xfe",
        b"e" * 255,
        b"e" * 32_000,
    ),
    *(b"-oProxyCommand=x", b"..", b"[::1", b"127.0.0.1.evil.example", "\u202eevil".encode()),
)
Broker = tuple[int, bytes, int]
REFUSED: dict[str, Broker] = {
    **{f"node 1, port {port}": (1, EVIL, port) for port in BAD_PORTS},
    **{f"node 99, port {port}": (99, EVIL, port) for port in BAD_PORTS},
    **{f"node 1, host {host!r}": (1, host, 9092) for host in BAD_HOSTS},
    **{f"node 99, host {host!r}": (99, host, 9092) for host in BAD_HOSTS},
}
HIDDEN: dict[str, Broker] = {
    **{f"node {node}": (node, EVIL, 9092) for node in FOREIGN_IDS},
    "no node": (-1, EVIL, 9092),
    **{f"node 99, host {host[:30]!r}": (99, host, 9092) for host in STRANGE_HOSTS},
}
LEARNT: dict[str, Broker] = {
    f"node 1, host {host[:30]!r}": (1, host, 9092) for host in STRANGE_HOSTS
}
"""A declared node at a host that is only a strange name: the resolver refuses it when it is dialled."""


def metadata(brokers: list[Broker]) -> bytes:
    """Return a Metadata v1 reply."""
    parts = [struct.pack(">i", len(brokers))]
    for node, host, port in brokers:
        parts += [
            struct.pack(">ih", node, len(host)),
            host,
            struct.pack(">i", port),
            f.string(None),
        ]
    return f.reply(1, b"".join(parts) + struct.pack(">ii", 1, 0))


def told(brokers: list[Broker]) -> Wire:
    """Return a session whose broker has named these."""
    return Wire().client(f.metadata_request(1)).broker(metadata(brokers))


def learnt(wire: Wire) -> dict[int, tuple[bytes, int]]:
    return wire.engine.topology._addresses


@pytest.mark.parametrize("kind", REFUSED)
def test_an_address_that_cannot_be_dialled_ends_the_session(kind: str) -> None:
    """It is the broker's fault: the client gets no byte of the reply, and nothing is learnt."""
    wire = told([REFUSED[kind]])
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.to_client == b""
    assert not learnt(wire)


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_node_outside_the_range_is_neither_learnt_nor_shown(kind: str) -> None:
    """The client is told an address of Sluice's, and no false host."""
    node, host, _ = HIDDEN[kind]
    wire = told([HIDDEN[kind]])
    port = 19093 + node if node in DECLARED else 19092
    assert wire.to_client == metadata([(node, b"127.0.0.1", port)])
    assert not learnt(wire)
    assert host not in wire.to_client


def test_a_node_without_a_host_is_no_node() -> None:
    """Kafka names no coordinator like this; nothing is learnt."""
    for nameless in ((1, b"", 9092), (1, b"", -1), (-1, b"", -1)):
        wire = told([nameless])
        assert wire.to_client == metadata([nameless])
        assert not learnt(wire)


@pytest.mark.parametrize("kind", LEARNT)
def test_a_strange_name_of_a_declared_node_reaches_no_client(kind: str) -> None:
    """It replaces that node's address until a broker names another; the table has no other entry."""
    wire = told([LEARNT[kind]])
    assert wire.to_client == metadata([(1, b"127.0.0.1", 19094)])
    assert set(learnt(wire)) == {1}
    wire.client(f.metadata_request(1)).broker(metadata([(1, b"kafka-1.real", 9092)]))
    assert learnt(wire)[1] == (b"kafka-1.real", 9092)


def test_240_000_nodes_leave_nothing_but_a_few_lines() -> None:
    """No node is learnt, the memory of unknown ids stops at 1,000, and the log has a few lines a second."""
    hostile = len(REFUSED) + len(HIDDEN) + len(LEARNT)
    assert hostile >= 40
    engine = make_engine()
    with structlog.testing.capture_logs() as lines:
        engine.topology._observer = LogObserver(lambda: 0, lambda *_: None)
        for first in range(0, MANY, 20_000):
            wire = Wire(engine).client(f.metadata_request(1))
            wire.broker(metadata([(n, EVIL, 9092) for n in range(100 + first, 20_100 + first)]))
            assert not wire.session.ended
            assert EVIL not in wire.to_client
    limits, written = LineLimits(lambda: 0), 0
    for line in lines:  # as the log's own processor does, all within one second
        if not limits.is_full(line["event"], line):
            limits.pass_one(line["event"], line)
            written += 1
    tell("T28", f"{hostile} hostile brokers; of {MANY:,} foreign nodes 0 were learnt, "
         f"{len(engine.topology.unmapped_nodes)} remembered, {written} lines written in a second")  # fmt: skip
    assert not engine.topology._addresses
    assert len(engine.topology.unmapped_nodes) == UNMAPPED_MAX
    assert len(lines) == UNMAPPED_MAX
    assert written <= LIMITS["unmapped_node"].lines


def test_a_broker_at_our_own_address_is_not_dialled(tmp_path: Path) -> None:
    """Else one client of its node would use up all connections: each of ours would be another client of it."""
    node = 1
    named: list[tuple[int, str, int]] = []

    def answer(request: bytes) -> bytes:
        return f.metadata_reply(struct.unpack_from(">i", request, 8)[0], named)

    with StubBroker(answer) as broker, SluiceProcess(broker.server, tmp_path) as sluice:
        port = sluice.port + 1 + node
        named.append((node, "127.0.0.1", port))
        with socket.create_connection((sluice.address, port), 60) as client:
            client.sendall(f.heartbeat(1))
            assert receive_until_closed(client) == b""
    lines = [line for line in sluice.said().splitlines() if "is a port of Sluice itself" in line]
    assert 1 <= len(lines) <= 3
