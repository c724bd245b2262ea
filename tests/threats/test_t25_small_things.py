"""T25: memory by many small things: requests in flight, replies that are not read, replies that stop half-way.

Each is counted in a pool, and everything owed has a deadline. `tests/integration/test_memory_promise.py` fills all
places at once in a cgroup of the size that `sluice check` names. Here the counted bytes are compared with the real.
"""

import gc
import socket
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.session.grace_times import GraceTimes
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.rewritten import share_fetch
from tests.support.processes.measured import scaled, tell
from tests.support.shell.sockets import Bench, receive, start_sending

CLIENTS = scaled(40, 100)
PRODUCES = 4_200
POOL_BYTES = 64 << 20
UNCOUNTED_BYTES = 24 << 10
"""That one connection may use beside the pools (`sluice check` names them)."""
READERS = scaled(12, 40)
REPLY_BYTES = 10 << 20
"""More than the kernel takes of it (tcp_wmem and tcp_rmem)."""
REPLY_POOL_BYTES = 32 << 20
TIMEOUT_MS = 30_000


def test_requests_in_flight_at_a_silent_broker_stay_within_the_pool() -> None:
    """Each client pipelines 4,200 produces. The real memory is not above the counted, and a share for each client."""
    pool_limits = PoolLimits(request_bytes=POOL_BYTES)
    engine = make_engine(pool_limits=pool_limits, graces=GraceTimes(silence_ms=0, produce_ms=0))
    request = b"".join(f.produce(n, size_bytes=200) for n in range(50))
    wires = [Wire(engine) for _ in range(CLIENTS)]
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(PRODUCES // 50):
            for wire in wires:
                if not wire.unread:
                    wire.client(request)
                wire.to_broker = b""
        gc.collect()
        real_bytes = tracemalloc.get_traced_memory()[0] - sum(len(wire.unread) for wire in wires)
    finally:
        tracemalloc.stop()
    counted = engine.request_pool.used_bytes
    in_flight = sum(len(wire.session.queue) for wire in wires)
    tell("T25", f"{in_flight:,} produces in flight: {counted >> 20} MiB counted, {real_bytes >> 20} MiB real, "
         f"pool {POOL_BYTES >> 20} MiB")  # fmt: skip
    assert counted <= POOL_BYTES + (1 << 20)
    assert real_bytes <= counted * 1.1 + CLIENTS * UNCOUNTED_BYTES
    for wire in wires:
        wire.session.client_lost(engine.now_ms)
        wire.release()
    assert engine.request_pool.used_bytes == 0


@pytest.fixture
def bench() -> Iterator[Bench]:
    """An event loop with a small pool of replies."""
    made = Bench(make_engine(pool_limits=PoolLimits(response_bytes=REPLY_POOL_BYTES)))
    yield made
    made.close()


def test_replies_that_are_not_read_stay_within_their_pool(bench: Bench) -> None:
    """Many clients ask for a large reply that is kept whole, and read nothing; later each gets all of it."""
    asked, reply = share_fetch(1, REPLY_BYTES)
    told = Wire().client(asked).broker(reply).to_client
    links = [bench.link()[:2] for _ in range(READERS)]
    for client, _ in links:
        client.sendall(asked)
    bench.run()
    senders = []
    for client, broker in links:
        client.settimeout(60)
        assert receive(broker, len(asked)) == asked
        senders.append(start_sending(broker, reply))
    bench.run(0.2)
    pool = bench.engine.reply_pool
    counted, peak = pool.used_bytes, pool.peak_bytes
    tell("T25", f"{READERS} unread replies of {REPLY_BYTES >> 20} MiB: {counted >> 20} MiB counted, "
         f"peak {peak >> 20} MiB, pool {REPLY_POOL_BYTES >> 20} MiB")  # fmt: skip
    assert counted > 0
    assert peak <= REPLY_POOL_BYTES + 2 * len(reply)
    readers = [Reader(client, len(told)) for client, _ in links]
    for reader in (*readers, *senders):
        bench.join(reader)
    assert all(reader.got == told for reader in readers)
    bench.run()
    assert pool.used_bytes == 0


class Reader(threading.Thread):
    """Reads so many bytes."""

    def __init__(self, client: socket.socket, size: int) -> None:
        super().__init__(daemon=True)
        self.client, self.size, self.got = client, size, bytearray()
        self.start()

    def run(self) -> None:
        while len(self.got) < self.size and (data := self.client.recv(1 << 18)):
            self.got += data


def test_a_broker_that_stops_inside_a_reply_holds_nothing_for_long() -> None:
    """The half reply is counted; the session ends at the request timeout, and all of it is given back."""
    engine = make_engine(
        pool_limits=PoolLimits(response_bytes=POOL_BYTES), request_timeout_ms=TIMEOUT_MS
    )
    wires = []
    for number in range(READERS):
        asked, reply = share_fetch(number, POOL_BYTES // READERS // 3)
        wires.append(Wire(engine).client(asked))
        wires[-1].broker(reply[: len(reply) // 2])
    held_bytes = engine.reply_pool.used_bytes
    assert 0 < held_bytes <= POOL_BYTES
    now_ms = engine.now_ms
    while not all(wire.session.ended for wire in wires):
        wires[0].advance(1000)
        assert engine.now_ms <= now_ms + 3 * TIMEOUT_MS, "a half reply is waited for"
    tell("T25", f"{READERS} half replies: {held_bytes >> 20} MiB counted, all ended after "
         f"{(engine.now_ms - now_ms) // 1000} s")  # fmt: skip
    assert {wire.session.reason for wire in wires} == {CloseReason.UPSTREAM_REQUEST_TIMEOUT}
    for wire in wires:
        wire.release()
    assert engine.reply_pool.used_bytes == 0
