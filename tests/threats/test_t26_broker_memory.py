"""T26: clients that use up a broker's memory through Sluice: each announces a large request and sends little of it.

A broker reserves what a request announces. Sluice bounds the bytes that are announced and not sent, per broker
(`memory.upstream_announced_max_bytes`, 128 MiB): at most one request exceeds it. A request that arrives slowly is
announced when all of it is here, up to 16 MiB; larger ones leave a quarter of the bound to ordinary ones.
`tests/integration/test_announced.py` has a real broker with a heap of 256 MiB, which dies of such clients without
Sluice.
"""

import struct

import pytest

from proxy.config.sections import MemorySettings
from proxy.core.memory.announced import FAST_BYTES
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from tests.support.core.memory import unread_bytes
from tests.support.core.sessions import Wire, make_engine
from tests.support.core.uploads import QUICK_BYTES_PER_MS, Crowd
from tests.support.messages import frames as f
from tests.support.processes.measured import scaled, tell

CLIENTS = 200
LARGE = f.produce(1, acks=1, size_bytes=16 << 20)
BOUND_BYTES = MemorySettings().upstream_announced_max_bytes
NODES = (1, 2)
MIB = 1 << 20
POOL_BYTES = 64 * MIB
SLOW_BYTES_PER_MS = 100


def owed_bytes(wire: Wire) -> int:
    """Return the bytes that the broker was promised on this connection and has not received."""
    sent = wire.to_broker
    return 4 + struct.unpack_from(">i", sent)[0] - len(sent) if len(sent) >= 4 else 0


@pytest.mark.parametrize("sent", [200, 40_000])
def test_a_broker_is_promised_no_more_than_the_bound(sent: int) -> None:
    """200 times 16 MiB to each of two brokers; small and large honest requests go through at once."""
    pool_limits = PoolLimits(
        announced_bytes=BOUND_BYTES, read_limits=ReadLimits(), request_bytes=POOL_BYTES
    )
    engine = make_engine(pool_limits=pool_limits)
    engine.reservations.unread_bytes = unread_bytes
    crowd = {
        node: [Wire(engine, node).client(LARGE[:sent]) for _ in range(CLIENTS)] for node in NODES
    }
    promised = {node: sum(map(owed_bytes, wires)) for node, wires in crowd.items()}
    honest = Wire(engine, 1)
    for number in range(2, 102):
        request = f.produce(number, acks=1, size_bytes=1000)
        honest.client(request)
        assert honest.to_broker.endswith(request)
        honest.broker(f.produce_reply(number))
    for size_bytes in (1_000_000, 16_000_000):
        large = f.produce(1, acks=1, size_bytes=size_bytes)
        assert Wire(engine, 1).client(large).to_broker == large
    tell("T26", f"{CLIENTS} x 16 MiB announced to each of {len(NODES)} brokers, {sent} bytes sent: at most "
         f"{max(promised.values()) / MIB:.0f} MiB promised to one; honest ones of 16 MB passed at once")  # fmt: skip
    assert max(promised.values()) <= BOUND_BYTES
    assert min(promised.values()) == max(promised.values())
    assert (max(promised.values()) > 0) == (sent > FAST_BYTES)
    assert engine.request_pool.used_bytes <= POOL_BYTES


@pytest.mark.parametrize("addresses", [1, 20])
def test_clients_that_are_merely_slow_delay_no_other_client(addresses: int) -> None:
    """Twenty legal requests of 90 MB at 100 kB/s: others, up to 10 MB, pass at once, and no slow one is closed."""
    pool_limits = PoolLimits(
        announced_bytes=BOUND_BYTES, read_limits=ReadLimits(), request_bytes=POOL_BYTES
    )
    engine = make_engine(pool_limits=pool_limits)
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine)
    request = f.produce(1, acks=1, size_bytes=90_000_000)
    slow = [crowd.add(request, SLOW_BYTES_PER_MS, f"10.1.0.{n % addresses}", 1) for n in range(20)]
    longest_ms = 0
    for _ in range(scaled(60, 600)):
        for _ in range(10):
            crowd.step()
        for size_bytes in (2_000, 1_000_000, 10_000_000):
            asked = f.produce(2, acks=1, size_bytes=size_bytes)
            honest = crowd.add(asked, QUICK_BYTES_PER_MS, "10.2.0.1", 1)
            longest_ms = max(longest_ms, crowd.await_done(honest, 60_000))
        assert engine.announced.bytes_of(1) <= BOUND_BYTES
    tell("T26", f"beside 20 requests of 90 MB at 100 kB/s from {addresses} addresses the longest wait of honest ones, "
         f"up to 10 MB, is {longest_ms} ms of virtual time")  # fmt: skip
    assert longest_ms == 0
    assert not any(each.is_cut for each in slow)
    assert sum(len(each.link.to_broker) > 0 for each in slow) == 1  # the others wait for their turn


def test_slow_requests_are_announced_when_they_are_here() -> None:
    """Of 30 requests of 1 MB at 20 kB/s the broker is told when each is complete; all arrive in their own time."""
    pool_limits = PoolLimits(
        announced_bytes=BOUND_BYTES, read_limits=ReadLimits(), request_bytes=POOL_BYTES
    )
    engine = make_engine(pool_limits=pool_limits)
    engine.reservations.unread_bytes = unread_bytes
    crowd = Crowd(engine)
    request = f.produce(1, acks=1, size_bytes=1_000_000)
    slow = [crowd.add(request, 20, f"10.1.0.{n}", 1) for n in range(30)]
    while not all(each.is_done for each in slow):
        crowd.step()
        assert engine.announced.bytes_of(1) == 0
        assert engine.now_ms < 52_000
    assert engine.request_pool.used_bytes == 0
