"""Cluster: three brokers, each of them a leader, and Sluice in front with its dashboard and quotas."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio
from confluent_kafka import Producer

from proxy.admin.client import AdminAddress, AdminClient
from proxy.demo import cluster
from proxy.demo.cluster import ANSWER_MS, BROKERS, HOST, NODES, Sluice, free_ports, start_brokers
from proxy.demo.habits import HABITS
from proxy.demo.processes import DemoError
from tests.support.pages.made_up_states import made_up


def test_every_broker_leads_and_listens() -> None:
    """A client that asks one broker learns all three, and each leads a partition of the topic."""
    owner, ready = start_brokers()

    known = Producer({"bootstrap.servers": ready.brokers[1]}).list_topics(ready.topic, timeout=10)

    leaders = {partition.leader for partition in known.topics[ready.topic].partitions.values()}
    assert leaders == set(ready.brokers)
    assert len(ready.brokers) == BROKERS
    assert len(known.topics[ready.topic].partitions) == ready.partitions
    for address in ready.brokers.values():
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
    del owner


def test_brokers_answer_after_their_delay() -> None:
    """An acknowledgement takes at least the delay that the demo gives its brokers."""
    owner, ready = start_brokers()
    producer = Producer({"bootstrap.servers": ready.brokers[1], "linger.ms": 0})
    producer.list_topics(ready.topic, timeout=10)
    taken_ms: list[float] = []

    for _ in range(5):
        producer.produce(
            ready.topic,
            b"x",
            partition=0,
            on_delivery=lambda _, record: taken_ms.append(record.latency() * 1000),
        )
        producer.flush(10)

    assert len(taken_ms) == 5
    assert min(taken_ms) >= ANSWER_MS
    del owner


def test_free_ports_can_be_bound() -> None:
    """Every port of the block can be bound, all at once."""
    first = free_ports(5)

    servers = [socket.create_server((HOST, port)) for port in range(first, first + 5)]

    for server in servers:
        server.close()


def test_a_taken_port_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with a taken port in it is not returned; when none is left, the error says so."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(cluster.random, "randrange", lambda *_: port - 1)

        with pytest.raises(DemoError, match="3 consecutive free ports"):
            free_ports(3, attempts=2)


def fetched(address: str) -> str:
    """Return what a browser gets at an address, which it asks for without the part after the `#`."""
    with urlopen(address.partition("#")[0]) as answer:  # noqa: S310 - our own
        return str(answer.read(), "utf-8")


async def test_sluice_accepts_and_ends_at_sigterm(tmp_path: Path) -> None:
    """It listens on the bootstrap port and on a port for each broker, shows its dashboard, and exits 0 at SIGTERM."""
    sluice = Sluice(tmp_path)
    with socket.create_server((HOST, 0)) as broker:
        address = f"{HOST}:{broker.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            await sluice.start(nursery, {1: address, NODES - 1: address})

            for place in sluice.advertised.values():
                port = int(place.rpartition(":")[2])
                await (await trio.open_tcp_stream(HOST, port)).aclose()
            page = await trio.to_thread.run_sync(fetched, sluice.dashboard)
            state = await sluice.maybe_state()
            code = await sluice.stop()
            afterwards = await sluice.maybe_state()
            await sluice.kill()

    assert "<title>Sluice</title>" in page
    assert state is not None
    assert afterwards is None
    assert code == 0
    assert sluice.advertised[1] == f"{HOST}:{sluice.bootstrap_port + 2}"


async def test_every_run_has_its_own_token(tmp_path: Path) -> None:
    """The dashboard's address has it after the `#`; its file is readable by the user alone."""
    tokens = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        sluice = Sluice(tmp_path / name)
        async with trio.open_nursery() as nursery:
            await sluice.start(nursery, {1: f"{HOST}:1"})
            await sluice.kill()
        file = tmp_path / name / "token"
        assert sluice.dashboard.endswith(f"/#token={file.read_text('ascii')}")
        assert len(file.read_text("ascii")) >= 16
        assert file.stat().st_mode & 0o077 == 0
        tokens.add(file.read_text("ascii"))

    assert len(tokens) == 2


async def test_a_quota_is_set_and_removed_live(tmp_path: Path) -> None:
    """Sluice lists the quota that was set, and after its removal none; to remove none is no error."""
    sluice = Sluice(tmp_path)
    listed: list[list[float]] = []
    async with trio.open_nursery() as nursery:
        await sluice.start(nursery, {1: f"{HOST}:1"})
        for requests_per_s in (None, 100, None):
            await sluice.set_quota("noisy", requests_per_s)
            said = await sluice._ask("GET", "/v1/quotas")
            quotas: Any = said["quotas"]
            listed.append([each["per_second"] for each in quotas])
        await sluice.stop()
        await sluice.kill()

    assert listed == [[], [100.0], []]


async def test_a_refused_quota_is_explained(tmp_path: Path) -> None:
    """The error has Sluice's reason; after its end, that nothing answers."""
    sluice = Sluice(tmp_path)
    with pytest.raises(DemoError, match="not started"):
        await sluice.set_quota("noisy", 100)
    async with trio.open_nursery() as nursery:
        await sluice.start(nursery, {1: f"{HOST}:1"})
        with pytest.raises(DemoError, match="request_rate"):
            await sluice.set_quota("noisy", -1)
        await sluice.stop()
        with pytest.raises(DemoError, match="connection was refused"):
            await sluice.set_quota("noisy", 100)
        await sluice.kill()


async def test_a_sluice_that_does_not_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Sluice ends instead of listening, its own message is in its last lines."""
    sluice = Sluice(tmp_path)
    monkeypatch.setattr(cluster, "NODES", -5)
    monkeypatch.setattr(cluster, "free_ports", lambda _: free_ports(1))

    async with trio.open_nursery() as nursery:
        with pytest.raises(DemoError, match="does not answer"):
            await sluice.start(nursery, {1: f"{HOST}:1"})
        await sluice.kill()

    assert "nodes" in sluice.last_lines()


class Admin(HTTPServer):
    """An admin server that answers `said`."""

    said: tuple[int, bytes] = (200, b"{}")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Admin

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(self.server.said[0])
        self.end_headers()
        self.wfile.write(self.server.said[1])

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def admin() -> Iterator[Admin]:
    """An admin server in a thread."""
    with Admin((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("said", "is_read"),
    [
        ((200, json.dumps(made_up(40)).encode()), True),
        ((200, b"{}"), False),
        ((200, b"not JSON"), False),
        ((503, b"{}"), False),
        ((401, b""), False),
    ],
)
async def test_an_unreadable_state_is_none(
    *, said: tuple[int, bytes], is_read: bool, admin: Admin, tmp_path: Path
) -> None:
    """The page of the run then leaves out what Sluice observed; the run does not fail."""
    admin.said = said
    sluice = Sluice(tmp_path)
    sluice._admin = AdminClient(AdminAddress(address=f"{HOST}:{admin.server_port}"))

    state = await sluice.maybe_state()

    assert (state is not None) is is_read


async def test_quotas_are_those_of_a_file(tmp_path: Path) -> None:
    """With a quota file Sluice starts with its limits; without one, and with a usage log, with those of the habits."""
    file = tmp_path / "quotas.yaml"
    file.write_text("version: 1\nquotas: [{client_id: alice, request_rate: 77}]\n", "utf-8")
    limits: list[dict[str, float]] = []
    for name, chosen in (("file", file), ("habits", None)):
        (tmp_path / name).mkdir()
        sluice = Sluice(tmp_path / name, tmp_path / name / "log", chosen)
        async with trio.open_nursery() as nursery:
            await sluice.start(nursery, {1: f"{HOST}:1"})
            said: Any = await sluice._ask("GET", "/v1/quotas")
            limits.append({each["client_id"]: each["per_second"] for each in said["quotas"]})
            await sluice.stop()
            await sluice.kill()

    assert limits[0] == {"alice": 77}
    assert limits[1] == {name: habit.quota for name, habit in HABITS.items()}
