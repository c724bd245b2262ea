"""Requests that announce much: an engine with a bound per node, and sessions that have sent a little of one."""

from functools import cache

from proxy.core.memory.claim import PROBE_MS
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

BOUND = 40_000_000
LARGE = 18_000_000
"""Too large to be gathered here."""
SENT = 40_000
"""So much is sent at once that the client is quick."""
SLOW = 1000


def bounded(max_bytes: int = BOUND, *policies: Recorder, limits: ReadLimits | None = None):
    pool_limits = PoolLimits(
        announced_bytes=max_bytes, read_limits=limits or ReadLimits(0, 0), request_bytes=64 << 20
    )
    return make_engine(policies, pool_limits=pool_limits)


@cache
def large(number: int = 1, size_bytes: int = LARGE, acks: int = 1) -> bytes:
    return f.produce(number, acks=acks, size_bytes=size_bytes)


def begun(
    engine, number: int = 1, size_bytes: int = LARGE, node_id: int | None = 1, sent: int = SENT
) -> Wire:
    """Return a session that has announced a request of this size and sent a little of it."""
    return Wire(engine, node_id).client(large(number, size_bytes)[:sent])


def slow(engine, number: int = 1, size_bytes: int = LARGE) -> Wire:
    """Return a session whose request begins slowly."""
    wire = begun(engine, number, size_bytes, sent=SLOW)
    wire.advance(PROBE_MS)
    return wire.client(large(number, size_bytes)[SLOW : 2 * SLOW])


def waits(wire: Wire) -> bool:
    return bool(wire.session.client.muted & Mute.OUT_OF_MEMORY)


def gathers(wire: Wire) -> bool:
    return wire.session.is_gathering
