"""Listeners bind all ports or none, hand over each connection with its node, and pause instead of spinning."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.harness.ports import accepts, free_ports
from proxy.shell.endpoint import Endpoints
from proxy.shell.listeners import PAUSE_MS, Listeners
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, arrived


class Accepted:
    """The connections of a port, which a test counts. `may`: whether another one may be accepted."""

    def __init__(self) -> None:
        self.node_ids: list[int | None] = []
        self.addresses: list[tuple[str, int]] = []
        self.exhausted: list[str] = []
        self.may = True
        self.asked = 0

    def may_accept(self) -> bool:
        self.asked += 1
        return self.may

    def take(self, accepted: socket.socket, node_id: int | None, address: tuple[str, int]) -> None:
        accepted.close()
        self.node_ids.append(node_id)
        self.addresses.append(address)


@contextmanager
def listening(bench: Bench, *node_ids: int | None) -> Iterator[tuple[Accepted, list[int]]]:
    """Accept on a port for each node; return what is accepted, and the ports."""
    ports = [free_ports() for _ in node_ids]
    listeners = Listeners("127.0.0.1", zip(node_ids, ports, strict=True))
    accepted = Accepted()
    listeners.start(
        bench.event_loop.endpoints,
        accepted.take,
        accepted.may_accept,
        accepted.exhausted.append,
    )
    yield accepted, ports
    listeners.close()


@contextmanager
def connected(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connect so many clients to the port."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    yield clients
    for each in clients:
        each.close()


def test_each_connection_is_handed_over_with_the_node_of_its_port_and_its_address(bench):
    """The node of the bootstrap port is None."""
    with listening(bench, None, 3) as (accepted, ports):
        for port in ports:
            with connected(port, 1) as (client,):
                bench.event_loop.step(0)
                assert accepted.addresses[-1] == client.getsockname()
    assert accepted.node_ids == [None, 3]


def test_a_step_accepts_one_client_of_each_port_after_it_has_read_the_others(bench):
    """So in a storm of new clients the event loop is through with the ones before: no backlog of theirs grows."""
    client, broker, _ = bench.link()
    bench.settle()
    with (
        listening(bench, None, 1) as (accepted, (one, other)),
        connected(one, 9),
        connected(other, 9),
    ):
        for step in range(1, 10):
            client.sendall(f.heartbeat(step))
            bench.event_loop.step(0)
            assert sorted(accepted.node_ids, key=str) == [1] * step + [None] * step
            assert arrived(broker) == f.heartbeat(step)


def test_a_fault_about_one_client_is_reported_and_the_next_is_accepted(bench):
    """No session caused it, so none ends."""
    with listening(bench, None) as (accepted, (port,)), connected(port, 2):
        (on_ready,) = bench.event_loop.endpoints.watched.values()
        take, faults = on_ready.__self__._on_accepted, [RuntimeError("a bug")]

        def fail_once(client: socket.socket, *others: object) -> None:
            if faults:
                client.close()
                raise faults.pop()
            take(client, *others)

        on_ready.__self__._on_accepted = fail_once
        bench.run()
    assert accepted.node_ids == [None]
    assert [str(error) for error in bench.engine.observer.internal] == ["a bug"]


def test_a_port_in_use_is_named_and_the_other_ports_are_released():
    """The error is raised before any port accepts a client."""
    free = free_ports()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            Listeners("127.0.0.1", [(None, free), (0, port)])
    Listeners("127.0.0.1", [(None, free)]).close()


def test_no_port_accepts_before_all_are_bound():
    """A client that reaches the bootstrap port is then sent to a node's port, which must accept too."""
    first, second = free_ports(), free_ports()

    def ports() -> Iterator[tuple[int | None, int]]:
        yield None, first
        assert not accepts("127.0.0.1", first)
        yield 1, second

    listeners = Listeners("127.0.0.1", ports())
    assert accepts("127.0.0.1", first)
    assert accepts("127.0.0.1", second)
    listeners.close()


def test_the_same_port_can_be_bound_again_at_once():
    """Clients return to their cached addresses after a restart."""
    port = free_ports()
    for _ in range(3):
        Listeners("127.0.0.1", [(None, port)]).close()


@contextmanager
def failing(bench: Bench, *errors: int) -> Iterator[None]:
    """Let the only port raise these errors before it accepts, in this block."""
    (on_ready,) = bench.event_loop.endpoints.watched.values()
    port, whole = on_ready.__self__, on_ready.__self__._socket
    left = list(errors)

    class Failing:
        fileno = whole.fileno

        def _accept(self):
            if left:
                raise OSError(left.pop(0), "as told")
            return whole._accept()

    port._socket = Failing()
    yield
    port._socket = whole


def test_running_out_of_descriptors_pauses_accepting(bench):
    """Each refusal is reported and costs one pause; the next connection is accepted after it."""
    with (
        listening(bench, None) as (accepted, (port,)),
        connected(port, 1),
        failing(bench, errno.EMFILE, errno.ENFILE),
    ):
        for paused in (1, 2):
            bench.run()
            assert accepted.exhausted == ["as told"] * paused
            bench.clock.now_ms += PAUSE_MS - 1
            bench.run()
            assert accepted.node_ids == []
            bench.clock.now_ms += 1
        bench.run()
        assert accepted.node_ids == [None]


def test_a_client_that_has_left_costs_no_pause(bench):
    """The client behind it is accepted in the next step."""
    with (
        listening(bench, None) as (accepted, (port,)),
        connected(port, 1),
        failing(bench, errno.ECONNABORTED),
    ):
        bench.event_loop.step(0)
        bench.event_loop.step(0)
    assert accepted.node_ids == [None]
    assert accepted.exhausted == []


def test_at_the_limit_new_clients_wait_in_the_backlog(bench, monkeypatch):
    """No client is accepted while the limit is reached, and no event of the port is seen between two looks.

    A pause needs no new watch: the system may have none left, and the port would accept no client any more.
    """
    with listening(bench, None) as (accepted, (port,)), connected(port, 2):
        monkeypatch.setattr(Endpoints, "watch", None)
        accepted.may = False
        bench.event_loop.step(0)
        assert bench.run() == 0
        accepted.may = True
        bench.clock.now_ms += PAUSE_MS
        bench.run()
        assert accepted.node_ids == [None, None]


@pytest.mark.parametrize("pauses", [False, True])
def test_ports_that_are_stopped_accept_no_more(bench, pauses):
    """Nor when a pause ends. Their clients wait until the ports are closed."""
    with listening(bench, None) as (accepted, (port,)), connected(port, 1):
        accepted.may = not pauses
        if pauses:
            bench.event_loop.step(0)
    assert bench.event_loop.endpoints.watched == {}
    bench.clock.now_ms += PAUSE_MS
    assert bench.run() == 0
    assert accepted.node_ids == []


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - an address to listen at
def test_a_connection_to_one_of_the_ports_is_recognised(address: str):
    """By whichever address of this machine; the same port of another address is another server's."""
    port = free_ports()
    listeners = Listeners(address, [(None, port)])
    reached = "::1" if address == "::" else "127.0.0.1"
    with socket.create_connection((reached, port)) as connected:
        assert listeners.is_peer_of(connected, port)
        assert not listeners.is_peer_of(connected, port + 1)
    listeners.close()
    with (
        socket.create_server(("127.0.0.9", port)) as other,
        socket.create_connection(("127.0.0.9", port)) as connected,
    ):
        other.accept()[0].close()
        assert listeners.is_peer_of(connected, port) == (address != "127.0.0.1")
    assert not listeners.is_peer_of(connected, port)
