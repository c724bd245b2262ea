"""T26: clients that use up a broker's memory through Sluice: each announces 16 MiB and sends a little of it.

A broker reserves what a request announces. Sluice bounds the bytes that are announced and not sent, per broker
(`memory.upstream_announced_max_bytes`, 128 MiB); requests up to 64 KiB pass. `tests/integration/test_announced.py` has
a real broker with a heap of 256 MiB, which dies of the same clients without Sluice.
"""

import struct

from proxy.config.sections import MemorySettings
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from tests.support import frames as f
from tests.support.measured import tell
from tests.support.memory import unread_bytes
from tests.support.sessions import Wire, make_engine

CLIENTS = 200
LARGE = f.produce(1, acks=1, size_bytes=16 << 20)
BOUND_BYTES = MemorySettings().upstream_announced_max_bytes
NODES = (1, 2)


def owed_bytes(wire: Wire) -> int:
    """Return the bytes that the broker was promised on this connection and has not received."""
    sent = wire.to_broker
    return 4 + struct.unpack_from(">i", sent)[0] - len(sent) if len(sent) >= 4 else 0


def test_a_broker_is_promised_no_more_than_the_bound() -> None:
    """200 times 16 MiB to each of two brokers; small and large honest requests go through."""
    bounds = PoolLimits(announced_bytes=BOUND_BYTES, read_limits=ReadLimits())
    engine = make_engine(bounds=bounds)
    engine.reservations.unread_bytes = unread_bytes
    crowd = {
        node: [Wire(engine, node).client(LARGE[:200]) for _ in range(CLIENTS)] for node in NODES
    }
    promised = {node: sum(map(owed_bytes, wires)) for node, wires in crowd.items()}
    honest = Wire(engine, 1)
    for number in range(2, 102):
        request = f.produce(number, acks=1, size_bytes=1000)
        honest.client(request)
        assert honest.to_broker.endswith(request)
        honest.broker(f.produce_reply(number))
    tell("T26", f"{CLIENTS} x 16 MiB announced to each of {len(NODES)} brokers: at most "
         f"{max(promised.values()) / (1 << 20):.0f} MiB promised to one; 100 small ones passed at once")  # fmt: skip
    assert 0 < max(promised.values()) <= BOUND_BYTES
    assert min(promised.values()) == max(promised.values())
    large = Wire(engine, 1).client(LARGE)
    waited_ms = 0
    while len(large.to_broker) < len(LARGE):
        large.advance(1000)
        for each in crowd[1]:
            if each.session.ended and each.session.handle is not None:
                each.release()  # the event loop closes the connection to the broker
                each.to_broker = b""
        large._attend()
        large.proceed()
        waited_ms += 1000
        assert sum(map(owed_bytes, crowd[1])) <= BOUND_BYTES
        assert waited_ms <= 200_000, "an honest large request never goes through"
    tell(
        "T26",
        f"an honest request of 16 MiB went through after {waited_ms / 1000:.0f} s, behind {CLIENTS} others",
    )
