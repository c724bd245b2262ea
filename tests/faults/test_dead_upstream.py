"""A broker that refuses, or accepts and stays silent, ends the client's connection; no reply is invented."""

import re
import socket
import time

import pytest

from bench.harness.ports import free_ports
from tests.support.faults.honest import Honest
from tests.support.faults.stub_broker import ADDRESS, CLOSE, NODE, StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed

TIMEOUT = {"SLUICE_UPSTREAM_REQUEST_TIMEOUT_MS": "1000"}
SETUP_TIMEOUT = {"SLUICE_UPSTREAM_SOCKET_CONNECTION_SETUP_TIMEOUT_MS": "300"}
"""For the question where a node is, too."""
HEARTBEAT = b"\0\x0c"


def wait_for_the_end(port: int, request: bytes) -> tuple[bytes, float]:
    """Return the bytes that arrive before the connection's end, and the seconds that this takes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        began = time.monotonic()
        client.sendall(request)
        return receive_until_closed(client), time.monotonic() - began


def test_a_port_that_refuses_ends_the_connection_at_once(start) -> None:
    """The client gets no byte and does not wait for a timeout, on the bootstrap port and on a node's port."""
    sluice = start(f"{ADDRESS}:{free_ports(ADDRESS)}")
    for port in (sluice.port, sluice.node_port(NODE)):
        answer, _ = wait_for_the_end(port, f.heartbeat(1))
        assert answer == b""

    def ends() -> set[tuple[str, str]]:
        """Node and reason of each session; the probe at the start may be a third one, on the bootstrap port."""
        return set(re.findall(r"session_closed .* node=(\w+) reason=(\w+)", sluice.said()))

    await_that(
        lambda: {node for node, _ in ends()} == {"bootstrap", str(NODE)}, "both lines of log"
    )
    assert {reason for _, reason in ends()} == {"upstream_refused"}  # and not a timeout


def test_a_silent_broker_ends_the_connection_at_the_request_timeout(start) -> None:
    """An unanswered Heartbeat ends its connection after a second, on both kinds of port, and not before."""

    def answer(request: bytes) -> bytes | None:
        return None if request[4:6] == HEARTBEAT else stub.usual(request)

    with StubBroker(answer) as stub:
        sluice = start(stub.server, variables=TIMEOUT)
        for port in (sluice.port, sluice.node_port(NODE)):
            answered, seconds = wait_for_the_end(port, f.heartbeat(1))
            assert answered == b""
            assert seconds > 0.9
    await_that(lambda: sluice.said().count("Heartbeat unanswered") == 2, "the log to say why")


def test_brokers_that_say_nothing_at_all_are_no_place_for_a_node(start) -> None:
    """Where no bootstrap broker tells where a node is, its clients end with the dial; none is led elsewhere."""
    with StubBroker(lambda _: None) as mute:
        sluice = start(mute.server, variables=TIMEOUT | SETUP_TIMEOUT)
        answered, _ = wait_for_the_end(sluice.node_port(NODE), f.heartbeat(1))
        assert answered == b""
    closed = re.compile(rf"session_closed .* node={NODE} reason=upstream_dial_timeout")
    await_that(lambda: closed.search(sluice.said()), "the line of log")


def test_only_the_unanswered_connection_ends(start) -> None:
    """A broker that ignores one group ends that client's connection, and no other."""

    def answer(request: bytes) -> bytes | None:
        return None if b"mute" in request else stub.usual(request)

    with StubBroker(answer) as stub:
        sluice = start(stub.server, variables={"SLUICE_UPSTREAM_REQUEST_TIMEOUT_MS": "3000"})
        with Honest(sluice.port) as other, Honest(sluice.port, "mute") as unheard:
            other.ask()
            request, _ = unheard.next_request()
            unheard.socket.sendall(request)
            assert receive_until_closed(unheard.socket) == b""
            other.ask()


@pytest.mark.parametrize("told", [0, 1, 9])
def test_a_broker_that_hangs_up_ends_the_connection_after_its_last_byte(start, told: int) -> None:
    """The bytes it sent arrive, even a part of a frame; then the connection ends with nothing added."""
    whole = f.heartbeat_reply(1)
    turns = iter([whole[:told] or CLOSE])

    def answer(request: bytes) -> bytes | None:
        return next(turns, CLOSE)

    with StubBroker(answer) as stub:
        sluice = start(stub.server)
        with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as client:
            client.sendall(f.heartbeat(1))
            got = client.recv(64) if told > 8 else b""
            client.sendall(f.heartbeat(2))  # now it hangs up
            got += receive_until_closed(client)
            assert whole[:told].startswith(got)
            assert len(got) == told or told < 8  # a head that is not whole says nothing to anybody
