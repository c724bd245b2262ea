"""PoolLimits: the bounds that an engine derives from them."""

from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.reply_reservations import MAX_REPLY_BYTES, OWN_BYTES
from tests.support.core.memory import Link, begun, kept, small_engine
from tests.support.core.sessions import make_engine


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
    bounds = PoolLimits(request_bytes=5000, response_bytes=7000, requests=3, max_share=0.5)
    engine = make_engine(bounds=bounds)
    assert engine.request_pool.size_bytes == engine.request_pool.max_single_bytes == 5000
    assert engine.reply_pool.size_bytes == 7000
    assert engine.reply_reservations.max_bytes == 7000 + OWN_BYTES
    assert engine.reservations.max_requests == 3
    small = make_engine(bounds=bounds, request_max_bytes=100)
    assert small.request_pool.max_single_bytes == 104
