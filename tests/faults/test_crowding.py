"""Connections that say nothing, and an address that takes them all: honest clients connect and work meanwhile."""

import select
import socket
import time
from contextlib import ExitStack

from tests.support.faults.honest import Crowd, Honest
from tests.support.kafka.load import await_that

PLACES = 40
FLOOD = 120


def connect(stack: ExitStack, port: int) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))


def is_closed(client: socket.socket) -> bool:
    """Return whether Sluice has closed this connection."""
    readable, _, _ = select.select([client], [], [], 0)
    if not readable:
        return False
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_flood_of_silent_connections_keeps_no_honest_client_out(start, broker) -> None:
    """All places are taken by connections that say nothing: the oldest yield, clients at work keep theirs."""
    sluice = start(broker.server, settings={"limits": {"max_connections": PLACES}})
    with Crowd(sluice.port, 4), ExitStack() as flood:
        for _ in range(FLOOD):
            connect(flood, sluice.port)
        for number in range(5):
            with Honest(sluice.port, f"late{number}") as late:
                late.ask()
    await_that(lambda: "reason=evicted" in sluice.said(), "the log")


def test_a_connection_that_says_nothing_is_closed_in_time(start, broker) -> None:
    """Also one that sends a byte; one that has sent a request stays."""
    sluice = start(broker.server, settings={"limits": {"first_request_timeout_ms": 500}})
    with ExitStack() as stack, Honest(sluice.port) as honest:
        honest.ask()
        silent = [connect(stack, sluice.port) for _ in range(20)]
        silent[0].sendall(b"\0")
        await_that(lambda: all(map(is_closed, silent)), "silent connections to be closed")
        honest.ask()
    await_that(lambda: "reason=first_request_timeout" in sluice.said(), "the log")


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(start, broker) -> None:
    """The idle client reads the end of the stream."""
    sluice = start(broker.server, settings={"limits": {"connections_max_idle_ms": 1000}})
    with Crowd(sluice.port, 2), Honest(sluice.port) as idle:
        idle.ask()
        idle.socket.settimeout(60)
        assert idle.socket.recv(1) == b""


def test_one_address_cannot_take_all_connections(start, broker) -> None:
    """Further ones are closed at once, those that are open stay, and a reload raises the limit.

    The check of the start may have a place for a while.
    """
    sluice = start(broker.server, settings={"limits": {"max_connections_per_ip": 4}})
    with ExitStack() as stack:
        inside = [stack.enter_context(Honest(sluice.port, f"in{n}")) for n in range(3)]
        for each in inside:
            each.ask()
        refused = [connect(stack, sluice.port) for _ in range(50)]
        await_that(lambda: sum(map(is_closed, refused)) >= 49, "further connections to be closed")
        for each in inside:
            each.ask()
        assert "reason=max_connections_per_ip" in sluice.said()
        sluice.reload(limits={"max_connections_per_ip": 100})
        await_that(lambda: "config_reloaded" in sluice.said(), "the reload")
        stack.enter_context(Honest(sluice.port, "fourth")).ask()


def test_a_rate_of_connections_delays_clients_and_refuses_none(start, broker) -> None:
    """Fifteen clients at ten a second: the first ten at once, the last after half a second."""
    sluice = start(broker.server, settings={"limits": {"max_connection_creation_rate": 10}})
    began = time.monotonic()
    for number in range(15):
        with Honest(sluice.port, f"client{number}") as client:
            client.ask()
    assert time.monotonic() - began >= 0.3  # the check of the start took a token
    assert "limit=max_connection_creation_rate" in sluice.said()
