"""Brokers whose address is known are dialled by the event loop: without a task, and with the rules of all dials."""

from __future__ import annotations

import socket
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.shell import dial as dial_module
from proxy.shell.acceptor import Acceptor
from proxy.shell.broker_dials import BrokerDials
from proxy.shell.connecting import Connecting
from proxy.shell.dialer import Dialer
from proxy.shell.direct_dials import KEPT_S, NAMED_S
from proxy.shell.listeners import Listeners
from tests.support.core.sessions import Watcher
from tests.support.messages import frames as f
from tests.support.shell.sockets import arrived

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.shell.sockets import Bench

TIMEOUT_S = 5


class Proxy:
    """A proxy whose event loop is stepped, and its brokers."""

    def __init__(self, bench: Bench, node_id: int | None, bootstrap: list[tuple[str, int]]) -> None:
        self.bench = bench
        self.observer = Watcher()
        self._address = ("127.0.0.1", free_ports())
        self.listeners = Listeners("127.0.0.1", [(node_id, self._address[1])])
        self.dialer = Dialer(bench.engine.topology, bootstrap, TIMEOUT_S)
        self.until = trio.Event()
        self.tasks = 0

    def connect(self, sent: bytes) -> socket.socket:
        client = socket.create_connection(self._address)
        client.sendall(sent)
        self.bench.far.append(client)
        return client

    async def settle(self) -> None:
        """Step until nothing happens; note how many tasks there were."""
        for _ in range(30):
            self.bench.event_loop.step(0)
            self.tasks = max(self.tasks, self.bench.event_loop.arriving)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()

    @property
    def closed(self) -> list[tuple[CloseReason, str]]:
        return self.bench.engine.observer.closed


@asynccontextmanager
async def running(
    bench: Bench, *bootstrap: tuple[str, int], node_id: int | None = None
) -> AsyncIterator[Proxy]:
    proxy = Proxy(bench, node_id, list(bootstrap))
    acceptor = Acceptor(bench.engine, bench.event_loop, proxy.observer, bench.clock, 100)
    dials = BrokerDials(bench.engine, bench.event_loop, proxy.dialer, proxy.observer, bench.clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(dials.serve)
        nursery.start_soon(acceptor.serve, proxy.listeners, proxy.until)
        await wait_all_tasks_blocked()
        yield proxy
        nursery.cancel_scope.cancel()
    proxy.listeners.close()
    assert proxy.observer.internal == []
    assert bench.event_loop.arriving == 0
    assert bench.event_loop.endpoints.watched == {}


class Broker:
    """A listening socket. While it is `full`, connections to it are under way and get no answer."""

    def __init__(self, *, full: bool = False) -> None:
        self._sockets = ExitStack()
        self.listening = self._sockets.enter_context(socket.socket())
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(0 if full else 10)
        self.address: tuple[str, int] = self.listening.getsockname()
        for _ in range(3 if full else 0):
            waiting = self._sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(self.address)

    def accept(self) -> socket.socket:
        self.listening.setblocking(False)
        far, _ = self.listening.accept()
        return self._sockets.enter_context(far)

    def close(self) -> None:
        self._sockets.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


@pytest.fixture
def full_broker() -> Iterator[Broker]:
    made = Broker(full=True)
    yield made
    made.close()


def step_until_dialled(bench: Bench) -> None:
    """Step until a connection to a broker has begun; the event loop has not seen its outcome then."""
    while len(bench.event_loop.endpoints.watched) < 2:  # the port, and the connection
        bench.event_loop.step(0)


async def test_a_broker_with_an_ip_address_is_dialled_without_a_task(bench, broker):
    """The first request is sent as soon as it is there."""
    async with running(bench, broker.address) as proxy:
        proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(1)
        assert proxy.tasks == 0
        (session,) = bench.engine.sessions
        assert session.route == broker.address
        bench.event_loop.close_all(CloseReason.DRAINED)


async def test_a_name_is_looked_up_in_a_task_and_not_again_while_its_address_is_kept(
    bench, broker, mock_clock
):
    """A task looks it up, at first and when KEPT_S are over."""
    route = ("localhost", broker.address[1])
    async with running(bench, route) as proxy:
        for number, (wait_s, tasks) in enumerate(((0, 1), (0, 0), (KEPT_S - 1, 0), (1, 1))):
            mock_clock.jump(wait_s)
            proxy.tasks = 0
            proxy.connect(f.heartbeat(1))
            while sum(each.route is not None for each in bench.engine.sessions) == number:
                await proxy.settle()
            assert arrived(broker.accept()) == f.heartbeat(1)
            assert proxy.tasks == tasks
        bench.event_loop.close_all(CloseReason.DRAINED)


async def test_a_name_that_leads_elsewhere_by_now_is_looked_up_at_once(bench, broker, full_broker):
    """Its address has NAMED_S to answer; the client then gets the broker at the new one."""
    route = ("localhost", broker.address[1])
    async with running(bench, route) as proxy:
        proxy.dialer._direct_dials.note(route, "{}:{}".format(*full_broker.address))
        proxy.connect(f.heartbeat(1))
        await proxy.settle()
        bench.clock.now_ms += int(NAMED_S * 1000)
        while not any(each.route for each in bench.engine.sessions):
            await proxy.settle()
        await proxy.settle()  # a task may have connected it after the last step
        assert arrived(broker.accept()) == f.heartbeat(1)
        bench.event_loop.close_all(CloseReason.DRAINED)


async def test_the_next_bootstrap_broker_is_dialled_when_one_refuses(bench, broker, monkeypatch):
    """The one that refuses is tried once, and comes last from then on."""
    dead = ("127.0.0.1", free_ports())
    dialled = []
    connect = dial_module._connect

    async def noted(*address: object):
        dialled.append(address)
        return await connect(*address)

    monkeypatch.setattr(dial_module, "_connect", noted)
    async with running(bench, dead, broker.address) as proxy:
        proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(1)
        assert dialled == [broker.address]
        proxy.tasks = 0
        proxy.connect(f.heartbeat(2))
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(2)
        assert proxy.tasks == 0
        bench.event_loop.close_all(CloseReason.DRAINED)


async def test_a_broker_that_refuses_ends_the_session_with_its_address(bench):
    """As after a dial in a task."""
    dead = ("127.0.0.1", free_ports())
    async with running(bench, dead) as proxy:
        client = proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert client.recv(1) == b""
        client.close()
        await proxy.settle()
        refused = (CloseReason.UPSTREAM_REFUSED, f"127.0.0.1:{dead[1]}: Connection refused")
        assert proxy.closed == [refused]


async def test_a_broker_that_does_not_answer_in_time_ends_the_session(bench, full_broker):
    """After the timeout of one attempt, and no earlier."""
    host, port = full_broker.address
    async with running(bench, full_broker.address) as proxy:
        client = proxy.connect(f.heartbeat(1))
        bench.clock.now_ms += 1
        await proxy.settle()
        bench.clock.now_ms += TIMEOUT_S * 1000 - 2
        await proxy.settle()
        assert len(bench.event_loop.endpoints.watched) == 2  # the port, and the connection
        bench.clock.now_ms += 2
        await proxy.settle()
        client.close()
        await proxy.settle()
        why = f"{host}:{port} did not answer within {TIMEOUT_S} s"
        assert proxy.closed == [(CloseReason.UPSTREAM_DIAL_TIMEOUT, why)]


async def test_a_client_that_leaves_has_its_connection_to_the_broker_given_up(bench, full_broker):
    """Its socket is closed, and nothing is watched or counted for it."""
    async with running(bench, full_broker.address) as proxy:
        client = proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert len(bench.event_loop.endpoints.watched) == 2
        client.close()
        (session,) = bench.engine.sessions
        bench.event_loop.drop(session.handle, bench.clock.now_ms)
        assert len(bench.event_loop.endpoints.watched) == 1
        await proxy.settle()
        assert bench.engine.sessions == set()
        assert bench.held_bytes == 0


async def test_the_end_of_a_drain_ends_sessions_whose_brokers_are_being_dialled(bench, full_broker):
    """Their clients are disconnected."""
    async with running(bench, full_broker.address) as proxy:
        client = proxy.connect(f.heartbeat(1))
        await proxy.settle()
    bench.run()
    assert client.recv(1) == b""
    client.close()
    bench.run()
    assert [reason for reason, _ in proxy.closed] == [CloseReason.DRAINED]


async def test_a_drain_that_begins_when_a_broker_is_reached_still_sends_it_the_request(
    bench, broker
):
    """The kernel has connected, and the event loop has not seen it yet. The client gets its reply, then the end."""
    async with running(bench, broker.address) as proxy:
        client = proxy.connect(f.heartbeat(1))
        step_until_dialled(bench)
        proxy.until.set()
        bench.engine.drain()
        await proxy.settle()
        far = broker.accept()
        assert arrived(far) == f.heartbeat(1)
        far.sendall(f.reply(1, b"\0" * 6))
        await proxy.settle()
        assert arrived(client) == f.reply(1, b"\0" * 6)
        assert client.recv(1) == b""
        client.close()
        far.close()
        await proxy.settle()
        assert [reason for reason, _ in proxy.closed] == [CloseReason.DRAINED]
        assert bench.held_bytes == bench.event_loop.open_sockets == 0
        assert proxy.tasks == 0


@pytest.mark.parametrize("fails", ["at once", "soon", "late"])
async def test_a_dial_that_fails_within_a_drain_ends_its_session(bench, fails, full_broker):
    """Whether `connect` itself fails, or an event tells, or no event comes in time. Nothing is left of it."""
    failing = {
        "at once": ("255.255.255.255", 9092),  # no address for TCP
        "soon": ("127.0.0.1", free_ports()),
        "late": full_broker.address,
    }
    async with running(bench, failing[fails]) as proxy:
        client = proxy.connect(f.heartbeat(1))
        bench.clock.now_ms += 1
        if fails == "at once":
            bench.event_loop.step(0)
            bench.event_loop.step(0)
            assert bench.event_loop.arriving == 1  # a task looks for another broker
        else:
            step_until_dialled(bench)
        proxy.until.set()
        bench.engine.drain()
        if fails == "late":
            await proxy.settle()
            assert proxy.closed == []
            bench.clock.now_ms += TIMEOUT_S * 1000
        await proxy.settle()
        assert client.recv(1) == b""
        client.close()
        await proxy.settle()
        assert [reason for reason, _ in proxy.closed] == [CloseReason.DRAINED]
        assert bench.held_bytes == bench.event_loop.open_sockets == 0


async def test_who_takes_over_a_kept_address_gets_connections_until_its_time_is_over_only(
    bench, broker, mock_clock
):
    """As with Kafka's own clients, whose JVM keeps it for as long. No connection to it makes it last longer."""
    stranger = Broker()
    route = ("localhost", broker.address[1])
    async with running(bench, route) as proxy:
        proxy.dialer._direct_dials.note(route, "{}:{}".format(*stranger.address))
        for wait_s in (0, KEPT_S - 1):
            mock_clock.jump(wait_s)
            proxy.connect(f.heartbeat(1))
            await proxy.settle()
            assert arrived(stranger.accept()) == f.heartbeat(1)
        mock_clock.jump(1)
        proxy.connect(f.heartbeat(1))
        while sum(each.route is not None for each in bench.engine.sessions) < 3:
            await proxy.settle()
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(1)
        bench.event_loop.close_all(CloseReason.DRAINED)
    stranger.close()


async def test_a_client_whose_broker_is_dialled_costs_no_change_of_the_poll_set(bench, broker):
    """It is muted meanwhile, which the poll set is told when it sends more; its bytes arrive in order."""
    async with running(bench, broker.address) as proxy:
        proxy.connect(f.heartbeat(1))
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(1)
        assert bench.event_loop.endpoints.interest_changes == 0
        more = proxy.connect(f.heartbeat(2))
        step_until_dialled(bench)
        more.sendall(f.heartbeat(3))
        await proxy.settle()
        assert arrived(broker.accept()) == f.heartbeat(2) + f.heartbeat(3)
        bench.event_loop.close_all(CloseReason.DRAINED)


async def test_a_node_that_moves_while_it_is_dialled_is_dialled_where_it_is(bench, broker):
    """Nothing was sent to the first address."""
    moved = Broker()
    learn = bench.engine.topology.learn
    learn({0: (b"127.0.0.1", broker.address[1])})
    async with running(bench, node_id=0) as proxy:
        proxy.connect(f.heartbeat(1))
        step_until_dialled(bench)
        learn({0: (b"127.0.0.1", moved.address[1])})
        await proxy.settle()
        assert arrived(broker.accept()) == b""
        assert arrived(moved.accept()) == f.heartbeat(1)
        assert proxy.tasks == 0
        bench.event_loop.close_all(CloseReason.DRAINED)
    moved.close()


async def test_a_broker_at_a_port_of_our_own_is_refused(bench, broker):
    """Each connection to it would be another client, which dials again."""
    async with running(bench, broker.address) as proxy:
        proxy.dialer.is_own = lambda _, _port: True
        client = proxy.connect(f.heartbeat(1))
        await proxy.settle()
        client.close()
        await proxy.settle()
        ((reason, why),) = proxy.closed
        assert reason is CloseReason.UPSTREAM_REFUSED
        assert why.endswith("is a port of Sluice itself")
        # The dial is watched no longer, Sluice's own port still is.
        assert len(bench.event_loop.endpoints.watched) == 1


def test_an_event_is_no_proof_of_a_connection(bench, full_broker):
    """It may be one of an earlier socket with the same number."""
    told: list[object] = []
    connecting = Connecting(
        bench.event_loop.endpoints,
        (socket.AF_INET, full_broker.address),
        bench.clock.now_ms + 1000,
        lambda *outcome: told.append(outcome),
    )
    connecting._on_ready(bench.clock.now_ms)
    assert told == []
    connecting.cancel()
    bench.clock.now_ms += 1000
    bench.run()
    assert told == []
