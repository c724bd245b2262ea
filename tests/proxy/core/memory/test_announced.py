"""Announced bytes: the bound on bytes that a broker was promised and not sent, and the queue for it."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import Need, Throttle
from proxy.core.errors import CloseReason
from proxy.core.memory.announced import SMALL_BYTES
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import START_MS, ReadLimits
from proxy.core.session.channel import Mute
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine

BOUND = 1_000_000
LARGE = 400_000


def bounded(max_bytes: int = BOUND, *policies: Recorder, limits: ReadLimits | None = None):
    bounds = PoolLimits(
        announced_bytes=max_bytes, read_limits=limits or ReadLimits(0, 0), request_bytes=64 << 20
    )
    return make_engine(policies, bounds=bounds)


@cache
def large(number: int = 1, size_bytes: int = LARGE, acks: int = 1) -> bytes:
    return f.produce(number, acks=acks, size_bytes=size_bytes)


def begun(engine, number: int = 1, size_bytes: int = LARGE, node_id: int | None = 1) -> Wire:
    """Return a session that has announced a request of this size and sent a little of it."""
    return Wire(engine, node_id).client(large(number, size_bytes)[:1000])


def waits(wire: Wire) -> bool:
    return bool(wire.session.client.muted & Mute.OUT_OF_MEMORY)


def test_the_announced_bytes_of_a_broker_are_bounded():
    """A further request waits, and none of its bytes reaches the broker."""
    engine = bounded()
    wires = [begun(engine) for _ in range(5)]
    assert [waits(wire) for wire in wires] == [False, False, True, True, True]
    assert engine.announced.bytes_of(1) == 2 * len(large())
    assert [len(wire.to_broker) for wire in wires] == [1000, 1000, 0, 0, 0]
    assert engine.request_pool.used_bytes == 3 * 1000


def test_waiting_requests_are_forwarded_in_order_of_arrival():
    """Each is forwarded as soon as enough bytes were sent; a small one does not pass a large one."""
    engine = bounded()
    wires = [begun(engine), begun(engine), begun(engine, 1, 900_000), begun(engine, 1, 90_000)]
    assert [waits(wire) for wire in wires] == [False, False, True, True]
    wires[0].client(large()[1000:])
    assert [waits(wire) for wire in wires] == [False, False, True, True]
    wires[1].client(large()[1000:])
    assert [waits(wire) for wire in wires] == [False, False, False, False]
    wires[2].client(large(1, 900_000)[1000:])
    wires[3].client(large(1, 90_000)[1000:])
    assert [wire.to_broker for wire in wires] == [
        *(large(), large(), large(1, 900_000), large(1, 90_000))
    ]
    assert engine.announced.bytes_of(1) == engine.request_pool.used_bytes == 0


def test_small_requests_do_not_wait():
    """They are requests of up to 64 KiB in any number of reads, and requests that one read completes."""
    engine = bounded()
    begun(engine, size_bytes=3 * BOUND)
    assert waits(begun(engine))
    small = large(1, SMALL_BYTES - 100)
    wire = Wire(engine, 1)
    wire.client(small, chunk=500)
    assert wire.to_broker == small
    whole = Wire(engine, 1).client(large(1, 200_000))
    assert whole.to_broker == large(1, 200_000)


def test_one_request_larger_than_the_bound_is_accepted():
    """It would wait for ever otherwise; the next request waits."""
    engine = bounded()
    wire = begun(engine, 1, 3 * BOUND)
    behind = begun(engine)
    assert (waits(wire), waits(behind)) == (False, True)
    wire.client(large(1, 3 * BOUND)[1000:])
    assert wire.to_broker == large(1, 3 * BOUND)
    assert not waits(behind)


def test_each_node_has_a_bound_of_its_own():
    """A full bound of one node delays no request to another node."""
    engine = bounded()
    full = [begun(engine, node_id=1) for _ in range(3)]
    other, bootstrap = begun(engine, node_id=2), begun(engine, node_id=None)
    assert waits(full[2])
    assert not waits(other)
    assert not waits(bootstrap)


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_an_abandoned_request_counts_until_the_brokers_connection_is_closed(how):
    """The broker keeps its memory until then."""
    engine = bounded(LARGE)
    wire, behind = begun(engine), begun(engine)
    if how == "lost":
        wire.session.client_lost(engine.now_ms)
    else:
        wire.session.client_gone(engine.now_ms)
    assert wire.session.ended
    assert waits(behind)
    wire.session.upstream_closed()
    assert not waits(behind)
    wire.release()
    assert engine.announced.bytes_of(1) == len(large())


def test_a_waiting_session_that_ends_leaves_the_queue():
    """The next session takes its place."""
    engine = bounded(LARGE)
    first, second, third = (begun(engine) for _ in range(3))
    second.session.client_lost(engine.now_ms)
    second.release()
    first.client(large()[1000:])
    assert not waits(third)
    third.client(large()[1000:])
    third.release()
    first.release()
    assert engine.announced._nodes == {}
    assert engine.request_pool.used_bytes == 0


def test_a_streamed_request_that_stalls_is_closed():
    """The least rate is 1 KiB a second, judged after five seconds; a request that keeps it may take its time."""
    engine = bounded(limits=ReadLimits())
    silent, slow = begun(engine), begun(engine, 2)
    at = 1000
    for _ in range(60):
        slow.client(large(2)[at : at + 1100])
        at += 1100
        slow.advance(1000)
    assert silent.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert f"of {len(large())} bytes of a request in {START_MS} ms" in silent.session.detail
    assert not slow.session.ended
    slow.client(large(2)[at:])
    assert slow.to_broker == large(2)


def test_the_deadline_applies_while_others_wait():
    """Otherwise a request at the least rate could occupy a node for hours."""
    engine = bounded(LARGE, limits=ReadLimits())
    engine.reservations.unread_bytes = lambda _: 1 << 16
    slow, at = begun(engine), 1000

    def drip(seconds: int) -> None:
        nonlocal at
        for _ in range(seconds):
            slow.client(large()[at : at + 1100])
            at += 1100
            slow.advance(1000)

    drip(40)
    assert not slow.session.ended
    behind = begun(engine)
    drip(3)
    assert slow.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    slow.release()
    assert not waits(behind)


def test_a_verdict_is_kept_while_the_request_waits():
    """The policies are not asked again; a throttle begins when the request is forwarded."""
    judge = Recorder(lambda _: Throttle(50), apis={f.PRODUCE})
    engine = bounded(LARGE, judge)
    first, wire = begun(engine), begun(engine)
    assert waits(wire)
    assert len(judge.asked) == 2
    first.client(large()[1000:])
    assert not waits(wire)
    assert not wire.session.client.muted & Mute.THROTTLED
    wire.client(large()[1000:])
    assert wire.to_broker == large()
    assert wire.session.client.muted & Mute.THROTTLED
    assert len(judge.asked) == 2


def test_a_changed_bound_serves_the_queue_at_once():
    """Without a bound all waiting requests are forwarded."""
    engine = bounded(LARGE)
    wires = [begun(engine) for _ in range(5)]
    engine.announced.resize(3 * len(large()))
    assert [waits(wire) for wire in wires] == [False] * 3 + [True] * 2
    engine.announced.resize(0)
    assert not any(waits(wire) for wire in wires)
    for wire in wires:
        wire.client(large()[1000:])
        assert wire.to_broker == large()
    assert engine.announced.bytes_of(1) == 0


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, LARGE), min_size=1, max_size=3),
    st.integers(9000, 300_000),
    st.integers(1, BOUND),
    st.sampled_from([None, Need.HEADER, Need.HEAD]),
    st.sampled_from([0, 1, -1]),
)
def test_all_requests_arrive_for_any_sizes_and_reads(sizes, chunk, bound, need, acks):
    """Several sessions send several requests each; the count ends at 0."""
    policies = [] if need is None else [Recorder(needs=need)]
    engine = bounded(bound, *policies)
    sent = b"".join(large(n, size, acks) for n, size in enumerate(sizes))
    wires = [Wire(engine, n % 2) for n in range(4)]
    for at in range(0, len(sent), chunk):
        for wire in wires:
            wire.client(sent[at : at + chunk])
            assert engine.announced.bytes_of(0) <= max(bound, 4 * LARGE)
    for wire in wires:
        wire.proceed()
        assert wire.to_broker == sent
        wire.release()
    assert engine.announced._nodes == {}
    assert engine.request_pool.used_bytes == 0
