"""SIGHUP and SIGTERM close together, at bad moments: every client gets what is due to it, and the process ends."""

import os
import signal
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.support.faults.honest import Honest
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed

DRAIN = {"timeout_ms": 5_000}
FIND_COORDINATOR = 10
MIB = 1 << 20
UNREAD = 4
"""Clients that do not read, and the replies that each asks for: more than sockets and the pool hold."""


def find_coordinator(correlation_id: int) -> bytes:
    """FindCoordinator v3."""
    return f.request(
        FIND_COORDINATOR, 3, correlation_id, f.compact("group") + b"\x00\x00", tagged=True
    )


def large_reply(request: bytes) -> bytes:
    """A reply that Sluice keeps whole: it names a broker after a message of 3 MiB."""
    message = varint(1 + 3 * MIB) + bytes(3 * MIB)
    broker = struct.pack(">i", 1) + f.compact("kafka-1") + struct.pack(">i", 9092)
    body = struct.pack(">ih", 0, 0) + message + broker + b"\x00"
    return f.reply(f.correlation_id(request[4:]), body, tagged=True)


def varint(number: int) -> bytes:
    """Kafka's UNSIGNED_VARINT."""
    head = b""
    while number >= 0x80:
        head += bytes([number & 0x7F | 0x80])
        number >>= 7
    return head + bytes([number])


def test_a_configuration_that_cannot_be_read_to_its_end_does_not_hold_up_the_end(start, broker):
    """It lies on a network file system whose server is away, say. SIGTERM during the reload is obeyed."""
    sluice = start(broker.server, settings={"drain": DRAIN})
    with Honest(sluice.port) as honest:
        sluice.file.unlink()
        os.mkfifo(sluice.file)
        os.kill(sluice.pid, signal.SIGHUP)
        writer = os.open(sluice.file, os.O_WRONLY)  # returns when Sluice has opened it to read
        honest.ask()
    sluice.stop()
    os.close(writer)


def client_of(port: int, requests: int) -> socket.socket:
    """A client with a small window that has sent so many requests."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    client.sendall(b"".join(find_coordinator(n) for n in range(requests)))
    return client


@pytest.mark.parametrize("reads", [True, False])
def test_a_reply_that_waits_for_memory_is_delivered_by_a_drain_or_its_client_is_closed(
    start, reads
):
    """It waits for clients that do not read. If they do after all, all get all; if not, the deadline comes."""
    with StubBroker(large_reply) as stub, ExitStack() as clients:
        memory = {"queued_max_response_bytes": MIB}
        sluice = start(
            stub.server,
            settings={"drain": {"timeout_ms": 20_000 if reads else 2_000}, "memory": memory},
        )
        unread = [clients.enter_context(client_of(sluice.port, UNREAD)) for _ in range(UNREAD)]
        await_that(lambda: "pool_depleted" in sluice.said(), "a full pool")
        waiting = clients.enter_context(client_of(sluice.port, 1))
        await_that(
            lambda: stub.seen.total() == UNREAD * UNREAD + 1,
            "its request at the broker",
        )
        sluice.terminate()
        await_that(lambda: "draining" in sluice.said(), "the drain")
        if reads:
            with ThreadPoolExecutor() as threads:
                streams = list(threads.map(receive_until_closed, [*unread, waiting]))
            assert [len(f.split(each)) for each in streams] == [UNREAD] * UNREAD + [1]
        clients.close()
        sluice.await_exit()
        assert "Traceback" not in sluice.said()
