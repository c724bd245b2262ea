"""Read limits: while memory is short, reads are so small that they never use up the pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Respond
from proxy.core.memory.pool import MemoryPool
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.read_sizes import (
    FULL_BYTES,
    MIN_READ_BYTES,
    REPLY_CALM_BYTES,
    SLOW_BYTES,
    START_BYTES,
    ReadSizes,
)
from proxy.core.memory.reply_reservations import MAX_REPLY_BYTES, RESERVE_BYTES
from proxy.core.memory.reservations import MIN_STEP_BYTES, Reservations
from tests.support.core.memory import Keeper, Link, begun, kept, small_engine
from tests.support.core.policies import Recorder
from tests.support.core.sessions import make_engine
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
    """A read takes a sixteenth of the free memory at most, or MIN_READ_BYTES."""
    engine = small_engine(8 * MIB)
    pool = engine.request_pool
    link = Link(engine)
    pool.force_allocate(8 * MIB - left)
    most = engine.read_sizes.request_bytes(link.session)
    assert MIN_READ_BYTES <= most <= FULL_BYTES
    assert most <= max(left / 16, MIN_READ_BYTES)


def test_without_free_memory_reads_are_short():
    """They end with the frame; a frame that is kept whole is read up to the step that it has reserved."""
    answered = f.produce(1, acks=1, size_bytes=70_000)
    policy = Recorder(lambda asked: Respond(b"") if asked.acks == 1 else FORWARD, apis={f.PRODUCE})
    engine = small_engine(8 * MIB, Keeper(), policy)
    reads, pool = engine.read_sizes, engine.request_pool
    idle, begun, passing, gathering, dropped = (Link(engine) for _ in range(5))
    begun.client(kept(1)[:6])
    passing.client(f.produce(1, size_bytes=20_000)[:100])
    gathering.client(kept(1, 100_000)[:100])
    dropped.client(answered[:100])
    pool.force_allocate(8 * MIB)
    assert reads.request_bytes(idle.session) == START_BYTES
    assert not idle.waits
    assert reads.request_bytes(begun.session) == MIN_READ_BYTES
    assert reads.request_bytes(passing.session) == MIN_READ_BYTES
    passing.session.request_left = 10
    assert reads.request_bytes(passing.session) == 10
    assert reads.request_bytes(gathering.session) == MIN_STEP_BYTES
    assert reads.request_bytes(dropped.session) == len(answered) - 100


def test_a_client_over_the_limit_of_requests_begins_no_other():
    """There is free memory: its bytes are kept, and parsed when a request has ended."""
    engine = small_engine(8 * MIB, requests=1)
    link = Link(engine)
    assert engine.read_sizes.request_bytes(link.session) == FULL_BYTES
    engine.reservations.one_more()
    assert engine.read_sizes.request_bytes(link.session) == START_BYTES
    assert link.waits
    again = Link(engine).client(f.heartbeat(1))
    assert again.waits
    assert again.session.client.carry == f.heartbeat(1)
    engine.reservations.one_less()
    link.give_turns()
    assert again.to_broker == f.heartbeat(1)


@pytest.mark.parametrize(
    ("size", "used", "most"),
    [
        (64 * MIB, 0, FULL_BYTES),
        (64 * MIB, REPLY_CALM_BYTES - 1, FULL_BYTES),
        (64 * MIB, REPLY_CALM_BYTES, SLOW_BYTES),
        (64 * MIB, 63 * MIB, SLOW_BYTES),
        (64 * MIB, 64 * MIB - 320_000, 20_000),
        (64 * MIB, 64 * MIB - 1000, MIN_READ_BYTES),
        (64 * MIB, 65 * MIB, MIN_READ_BYTES),
        (MIB, 0, SLOW_BYTES),
        (-1, REPLY_CALM_BYTES, SLOW_BYTES),
    ],
)
def test_replies_are_read_in_smaller_parts_as_their_pool_fills(size, used, most):
    """They are never 0, because they free memory. In a pool of 1 MiB no read has its full size."""
    replies = MemoryPool(size)
    requests = MemoryPool(MIB)
    reads = ReadSizes(requests, replies, Reservations(requests))
    replies.force_allocate(used)
    assert reads.reply_bytes() == most
    assert replies.near_limit is (most < FULL_BYTES)
    assert replies.is_depleted is (used >= size > 0)
    assert not requests.is_depleted


# -- the bounds that an engine derives from its limits ------------------------------------------------


def test_an_engine_without_limits_refuses_nothing():
    """It counts all the same."""
    engine = make_engine()
    assert engine.request_pool.size_bytes == engine.reply_pool.size_bytes == -1
    assert engine.reservations.max_requests == -1
    unbounded = small_engine(-1, max_share=0.1)
    assert not any(begun(unbounded, size=5000).waits for _ in range(5))
    assert engine.request_pool.max_single_bytes == 4 + engine.request_max_bytes
    assert engine.reply_reservations.max_bytes == 2 * MAX_REPLY_BYTES


def test_the_limits_of_an_engine_can_be_changed():
    """The largest frame, the limit for short reads and the waiting sessions follow from them."""
    engine = small_engine(1000, max_share=0.5)
    holder = Link(engine).client(kept(1, 600)[:100])
    waiting = Link(engine)
    waiting.session.client.keep(kept(2, 600)[:8])
    waiting.client(kept(2, 600)[8:100])
    assert waiting.waits  # for its share
    engine.resize(64 << 20, 5000)
    assert not waiting.waits
    assert not engine.request_pool.near_limit
    assert engine.request_pool.max_single_bytes == 64 << 20
    assert engine.reply_pool.size_bytes == 5000
    engine.resize(-1, -1)
    assert engine.reply_reservations.max_bytes == 2 * MAX_REPLY_BYTES
    assert engine.request_pool.used_bytes == 1200 + len(waiting.session.client.carry)
    holder.client(kept(1, 600)[100:])
    assert holder.to_broker == kept(1, 600)


def test_each_limit_sets_its_own_bound():
    """A frame kept whole has at most the size of the largest request or of the pool; replies have an own part."""
    pool_limits = PoolLimits(request_bytes=5000, response_bytes=7000, requests=3, max_share=0.5)
    engine = make_engine(pool_limits=pool_limits)
    assert engine.request_pool.size_bytes == engine.request_pool.max_single_bytes == 5000
    assert engine.reply_pool.size_bytes == 7000
    assert engine.reply_reservations.max_bytes == 7000 + RESERVE_BYTES
    assert engine.reservations.max_requests == 3
    small = make_engine(pool_limits=pool_limits, request_max_bytes=100)
    assert small.request_pool.max_single_bytes == 104
