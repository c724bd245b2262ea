"""Read limits: while memory is short, reads are so small that they never use up the pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Respond
from proxy.core.memory.pool import MemoryPool
from proxy.core.memory.read_limits import (
    CRUMB_BYTES,
    FULL_BYTES,
    REPLY_CALM_BYTES,
    SLOW_BYTES,
    START_BYTES,
    Reads,
)
from proxy.core.memory.reservations import MIN_STEP_BYTES, Reservations
from tests.support.core.memory import Keeper, Link, kept, small_engine
from tests.support.core.policies import Recorder
from tests.support.messages import frames as f

MIB = 1 << 20


def test_a_pool_with_enough_memory_is_not_near_its_limit():
    """The event loop checks `near_limit` once a step; it is set when a step could use up the free memory."""
    engine = small_engine(64 * MIB, response_bytes=64 * MIB)
    assert not engine.request_pool.near_limit
    engine.request_pool.force_allocate(57 * MIB)
    assert not engine.request_pool.near_limit
    engine.request_pool.force_allocate(2 * MIB)  # less than a tenth is free
    assert engine.request_pool.near_limit
    assert small_engine(3 * MIB).request_pool.near_limit
    assert small_engine(64 * MIB, requests=5).request_pool.near_limit
    assert not small_engine(-1).request_pool.near_limit


@given(st.integers(1, 8 * MIB))
def test_reads_alone_never_use_up_the_pool(left):
    """A read takes a sixteenth of the free memory at most, or CRUMB_BYTES."""
    engine = small_engine(8 * MIB)
    pool = engine.request_pool
    link = Link(engine)
    pool.force_allocate(8 * MIB - left)
    most = engine.read_limits.request_bytes(link.session)
    assert CRUMB_BYTES <= most <= FULL_BYTES
    assert most <= max(left / 16, CRUMB_BYTES)


def test_without_free_memory_reads_are_short():
    """They end with the frame; a frame that is kept whole is read up to the step that it has reserved."""
    answered = f.produce(1, acks=1, size_bytes=70_000)
    policy = Recorder(lambda asked: Respond(b"") if asked.acks == 1 else FORWARD, apis={f.PRODUCE})
    engine = small_engine(8 * MIB, Keeper(), policy)
    reads, pool = engine.read_limits, engine.request_pool
    idle, begun, passing, gathering, dropped = (Link(engine) for _ in range(5))
    begun.client(kept(1)[:6])
    passing.client(f.produce(1, size_bytes=20_000)[:100])
    gathering.client(kept(1, 100_000)[:100])
    dropped.client(answered[:100])
    pool.force_allocate(8 * MIB)
    assert reads.request_bytes(idle.session) == START_BYTES
    assert not idle.waits
    assert reads.request_bytes(begun.session) == CRUMB_BYTES
    assert reads.request_bytes(passing.session) == CRUMB_BYTES
    passing.session.requests.left = 10
    assert reads.request_bytes(passing.session) == 10
    assert reads.request_bytes(gathering.session) == MIN_STEP_BYTES
    assert reads.request_bytes(dropped.session) == len(answered) - 100


def test_a_client_over_the_limit_of_requests_begins_no_other():
    """There is free memory: its bytes are kept, and parsed when a request has ended."""
    engine = small_engine(8 * MIB, requests=1)
    link = Link(engine)
    assert engine.read_limits.request_bytes(link.session) == FULL_BYTES
    engine.reservations.one_more()
    assert engine.read_limits.request_bytes(link.session) == START_BYTES
    assert link.waits
    again = Link(engine).client(f.heartbeat(1))
    assert again.waits
    assert again.session.client.carry == f.heartbeat(1)
    engine.reservations.one_less()
    link.attend()
    assert again.to_broker == f.heartbeat(1)


@pytest.mark.parametrize(
    ("size", "used", "most"),
    [
        (64 * MIB, 0, FULL_BYTES),
        (64 * MIB, REPLY_CALM_BYTES - 1, FULL_BYTES),
        (64 * MIB, REPLY_CALM_BYTES, SLOW_BYTES),
        (64 * MIB, 63 * MIB, SLOW_BYTES),
        (64 * MIB, 64 * MIB - 320_000, 20_000),
        (64 * MIB, 64 * MIB - 1000, CRUMB_BYTES),
        (64 * MIB, 65 * MIB, CRUMB_BYTES),
        (MIB, 0, SLOW_BYTES),
        (-1, REPLY_CALM_BYTES, SLOW_BYTES),
    ],
)
def test_replies_are_read_in_smaller_parts_as_their_pool_fills(size, used, most):
    """They are never 0, because they free memory. In a pool of 1 MiB no read has its full size."""
    replies = MemoryPool(size)
    requests = MemoryPool(MIB)
    reads = Reads(requests, replies, Reservations(requests))
    replies.force_allocate(used)
    assert reads.reply_bytes() == most
    assert replies.near_limit is (most < FULL_BYTES)
    assert replies.is_depleted is (used >= size > 0)
    assert not requests.is_depleted
