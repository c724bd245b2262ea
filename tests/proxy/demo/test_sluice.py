"""Sluice as the demo starts it: free ports, one a broker, and an explained failure."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
import trio

from policies.quota.entity import QuotaEntity
from proxy.cli.kafka_client import Connection
from proxy.cli.kafka_quotas import KafkaQuotas
from proxy.demo import sluice
from proxy.demo.cluster import start as start_cluster
from proxy.demo.process import StageError
from proxy.demo.sluice import HOST, NODES, Sluice, free_block

if TYPE_CHECKING:
    from pathlib import Path


def test_a_free_block_can_be_bound() -> None:
    """Every port of the block can be bound, all at once."""
    first = free_block(5)

    servers = [socket.create_server((HOST, port)) for port in range(first, first + 5)]

    for server in servers:
        server.close()


def test_a_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with a taken port in it is not offered; when none is left, that is said."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sluice.random, "randrange", lambda *_: port - 1)

        with pytest.raises(StageError, match="3 neighbouring ports"):
            free_block(3, attempts=2)


def fetched(address: str) -> str:
    """Return what a browser gets at an address, without what is behind its `#`."""
    with urlopen(address.partition("#")[0]) as answer:  # noqa: S310 - our own
        return str(answer.read(), "utf-8")


async def test_sluice_accepts_and_ends_at_sigterm(tmp_path: Path) -> None:
    """It listens on the bootstrap port and on a port for each broker, shows its dashboard, and exits 0 at SIGTERM."""
    front = Sluice(tmp_path)
    with socket.create_server((HOST, 0)) as broker:
        address = f"{HOST}:{broker.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            await front.start(nursery, {1: address, NODES - 1: address})

            for place in front.advertised.values():
                port = int(place.rpartition(":")[2])
                await (await trio.open_tcp_stream(HOST, port)).aclose()
            page = await trio.to_thread.run_sync(fetched, front.dashboard)
            seen = await front.maybe_seen()
            code = await front.stop()
            afterwards = await front.maybe_seen()
            await front.kill()

    assert "<title>Sluice</title>" in page
    assert seen is not None
    assert afterwards is None
    assert code == 0
    assert front.advertised[1] == f"{HOST}:{front.bootstrap_port + 2}"


async def test_a_quota_is_set_and_removed_live(tmp_path: Path) -> None:
    """Who asks Sluice for its quotas is told what was set, and after its removal nothing."""
    front = Sluice(tmp_path)
    owner, cluster = start_cluster()
    entity = QuotaEntity(user=None, client_id="noisy")
    async with trio.open_nursery() as nursery:
        await front.start(nursery, cluster.brokers)

        def listed() -> list[float]:
            with Connection(f"{HOST}:{front.bootstrap_port}", login=None) as connection:
                return [quota.value for quota in KafkaQuotas(connection).quotas(entity)]

        before = await trio.to_thread.run_sync(listed)
        await front.limit("noisy", 100)
        during = await trio.to_thread.run_sync(listed)
        await front.limit("noisy", None)
        after = await trio.to_thread.run_sync(listed)
        await front.stop()
        await front.kill()

    assert (before, during, after) == ([], [100.0], [])
    del owner


async def test_a_quota_that_is_refused_is_explained(tmp_path: Path) -> None:
    """What Sluice says against a change is in the error; so is that nobody answers."""
    front = Sluice(tmp_path)
    owner, cluster = start_cluster()
    async with trio.open_nursery() as nursery:
        await front.start(nursery, cluster.brokers)
        with pytest.raises(StageError, match="could not be changed"):
            await front.limit("noisy", -1)
        await front.stop()
        with pytest.raises(StageError, match="Nothing answers"):
            await front.limit("noisy", 100)
        await front.kill()
    del owner


async def test_a_sluice_that_does_not_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Sluice ends instead of listening, its own words are in the error."""
    front = Sluice(tmp_path)
    monkeypatch.setattr(sluice, "NODES", -5)
    monkeypatch.setattr(sluice, "free_block", lambda _: free_block(1))

    async with trio.open_nursery() as nursery:
        with pytest.raises(StageError, match="does not accept"):
            await front.start(nursery, {1: "127.0.0.1:1"})
        await front.kill()

    assert "nodes" in front.last_lines()
