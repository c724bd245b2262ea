"""T18: replies that are lost when a connection closes (half-open, reset, unread bytes at the close).

A side that ends sends what is due, then the end of the stream, and reads until its peer closes. All bytes arrive.
"""

import socket
import struct
import threading
import time
from contextlib import suppress

import psutil

from tests.support.faults.honest import Honest, receive_frames
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import tell

REPLY_BYTES = 64 << 10
REQUESTS = 200
GROWTH_BYTES = 16 << 20
NAP = threading.Event()


def test_every_reply_arrives_though_sluice_is_told_to_end(start) -> None:
    """A client pipelines requests, reads nothing, and sends more
    after SIGTERM: each reply that the broker sent arrives.
    """

    def answer(request: bytes) -> bytes:
        return big_reply(struct.unpack_from(">i", request, 8)[0])

    with StubBroker(answer) as stub:
        sluice = start(stub.server)
        memory = psutil.Process(sluice.pid).memory_info
        before = memory().rss
        with slow_client(sluice.port) as client:
            client.sendall(b"".join(f.heartbeat(n) for n in range(REQUESTS)))
            await_standstill(stub)
            assert stub.replied > 0
            assert memory().rss - before < GROWTH_BYTES
            sluice.terminate()
            await_that(lambda: "draining" in sluice.said(), "the drain")
            with suppress(ConnectionError):  # these are no longer read
                client.sendall(b"".join(f.heartbeat(n) for n in range(REQUESTS, REQUESTS + 5)))
            got = f.split(receive_until_closed(client))
        sluice.await_exit()
        assert [f.correlation_id(each) for each in got] == list(range(len(got)))
        assert all(each == big_reply(n) for n, each in enumerate(got))
        assert 0 < len(got) == stub.replied
        assert len(got) == REQUESTS
        tell(
            "T18",
            f"{sum(map(len, got)):,} bytes of {len(got)} replies, unread at SIGTERM: 100 % delivered",
        )


def test_a_client_that_reads_late_gets_everything(start) -> None:
    """Backpressure reaches the broker, memory stays bounded, others are served, and no byte is missing."""

    def answer(request: bytes) -> bytes | None:
        if b"honest" in request:
            return stub.usual(request)
        return big_reply(struct.unpack_from(">i", request, 8)[0])

    with StubBroker(answer) as stub:
        sluice = start(stub.server)
        with slow_client(sluice.port) as client, Honest(sluice.port) as other:
            client.sendall(b"".join(f.heartbeat(n) for n in range(REQUESTS)))
            await_standstill(stub)
            other.ask()
            got = receive_frames(client, REQUESTS)
            assert got == [big_reply(n) for n in range(REQUESTS)]


def await_standstill(stub: StubBroker) -> None:
    """Wait until the broker has replied, and no more bytes reach the client, or it has sent everything."""
    give_up = time.monotonic() + 60
    seen = -1
    while not stub.replied or seen != stub.sent_bytes:
        assert time.monotonic() < give_up, "nothing stands still"
        seen = stub.sent_bytes
        NAP.wait(0.2)


def slow_client(port: int) -> socket.socket:
    """Return a client with a small window, so that unread replies soon wait in Sluice."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    client.settimeout(20)
    client.connect(("127.0.0.1", port))
    return client


def big_reply(ident: int) -> bytes:
    """Return a large reply that differs from every other."""
    return f.reply(ident, struct.pack(">i", ident) * (REPLY_BYTES // 4))
