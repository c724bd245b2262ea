"""Announced bytes: the bound on bytes that a broker was promised and not sent, and what is done beyond it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import Need, Throttle
from proxy.core.memory.announced import SMALL_BYTES, STREAMS
from proxy.core.memory.claim import PROBE_MS
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.pool_part import ORDINARY_BYTES
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.announced import (
    BOUND,
    LARGE,
    SENT,
    begun,
    bounded,
    gathers,
    large,
    waits,
)


def test_the_announced_bytes_of_a_broker_are_bounded():
    """One large request may exceed the bound; a further one waits, and none of its bytes reaches the broker."""
    engine = bounded()
    wires = [begun(engine) for _ in range(5)]
    assert [waits(wire) for wire in wires] == [False, False, True, True, True]
    assert engine.announced.bytes_of(1) == 2 * len(large()) <= BOUND + len(large())
    assert [len(wire.to_broker) for wire in wires] == [SENT, SENT, 0, 0, 0]
    assert engine.request_pool.used_bytes == 3 * SENT


def test_larger_requests_leave_a_part_of_the_bound_to_ordinary_ones():
    """A quick one of 1 MiB streams beside as many larger ones as are admitted; beyond the bound it is gathered here."""
    engine = bounded()
    wires = [begun(engine) for _ in range(3)]
    ordinary = [begun(engine, 1, 1_000_000) for _ in range(30)]
    assert not any(map(waits, ordinary))
    assert [gathers(wire) for wire in ordinary] == [False] * 21 + [True] * 9
    assert engine.announced.bytes_of(1) <= BOUND + LARGE
    for wire in ordinary:
        wire.client(large(1, 1_000_000)[SENT:])
        assert wire.to_broker == large(1, 1_000_000)
    for wire in wires:
        wire.client(large()[SENT:])
        assert wire.to_broker == large()
    assert engine.announced.bytes_of(1) == engine.request_pool.used_bytes == 0


def test_small_requests_do_not_wait():
    """They are requests of up to 64 KiB in any number of reads, and requests that one read completes."""
    engine = bounded()
    for _ in range(3):
        begun(engine)
    assert waits(begun(engine))
    small = large(1, SMALL_BYTES - 100)
    wire = Wire(engine, 1)
    wire.client(small, chunk=500)
    assert wire.to_broker == small
    whole = Wire(engine, 1).client(large(1, 200_000))
    assert whole.to_broker == large(1, 200_000)


def test_one_request_larger_than_the_bound_is_accepted():
    """It would wait for ever otherwise; the next but one request waits."""
    engine = bounded(10_000_000)
    wires = [begun(engine, 1, 2 * LARGE) for _ in range(3)]
    assert [waits(wire) for wire in wires] == [False, True, True]
    wires[0].client(large(1, 2 * LARGE)[SENT:])
    assert wires[0].to_broker == large(1, 2 * LARGE)
    assert [waits(wire) for wire in wires] == [False, False, True]


def test_each_node_has_a_bound_of_its_own():
    """A full bound of one node delays no request to another node."""
    engine = bounded()
    full = [begun(engine, node_id=1) for _ in range(4)]
    other, bootstrap = begun(engine, node_id=2), begun(engine, node_id=None)
    assert waits(full[3])
    assert not waits(other)
    assert not waits(bootstrap)


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_an_abandoned_request_counts_until_the_brokers_connection_is_closed(how):
    """The broker keeps its memory until then."""
    engine = bounded(LARGE - 1)
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
    engine = bounded(LARGE - 1)
    first, second, third = (begun(engine) for _ in range(3))
    second.session.client_lost(engine.now_ms)
    second.release()
    first.client(large()[SENT:])
    assert not waits(third)
    third.client(large()[SENT:])
    third.release()
    first.release()
    assert engine.announced.bytes_of(1) == 0
    assert engine.request_pool.used_bytes == 0


def test_a_verdict_is_kept_while_the_request_waits():
    """The policies are not asked again; a throttle begins when the request is forwarded."""
    judge = Recorder(lambda _: Throttle(50), apis={f.PRODUCE})
    engine = bounded(LARGE - 1, judge)
    first, wire = begun(engine), begun(engine)
    assert waits(wire)
    assert len(judge.asked) == 2
    first.client(large()[SENT:])
    assert not waits(wire)
    assert not wire.session.client.muted & Mute.THROTTLED
    wire.client(large()[SENT:])
    assert wire.to_broker == large()
    assert wire.session.client.muted & Mute.THROTTLED
    assert len(judge.asked) == 2


def test_a_changed_bound_serves_the_queue_at_once():
    """Without a bound all waiting requests are forwarded."""
    engine = bounded(LARGE - 1)
    wires = [begun(engine) for _ in range(5)]
    assert [waits(wire) for wire in wires] == [False] + [True] * 4
    engine.announced.resize(3 * len(large()))
    assert [waits(wire) for wire in wires] == [False] * 3 + [True] * 2
    engine.announced.resize(0)
    assert not any(waits(wire) for wire in wires)
    for wire in wires:
        wire.client(large()[SENT:])
        assert wire.to_broker == large()
    assert engine.announced.bytes_of(1) == 0


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, 400_000), min_size=1, max_size=3),
    st.integers(9000, 300_000),
    st.integers(1, 1_000_000),
    st.sampled_from([None, Need.HEADER, Need.HEAD]),
    st.sampled_from([0, 1, -1]),
    st.sampled_from([0, 30, PROBE_MS]),
)
def test_all_requests_arrive_for_any_sizes_and_reads(sizes, chunk, bound, need, acks, pause_ms):
    """Several sessions send several requests each, quick or slow; the count ends at 0."""
    policies = [] if need is None else [Recorder(needs=need)]
    engine = bounded(bound, *policies)
    sent = b"".join(large(n, size, acks) for n, size in enumerate(sizes))
    wires = [Wire(engine, n % 2) for n in range(4)]
    for at in range(0, len(sent), chunk):
        for wire in wires:
            wire.client(sent[at : at + chunk])
            assert engine.announced.bytes_of(0) <= bound + 500_000
        wires[0].advance(pause_ms)
    for wire in wires:
        wire.proceed()
        assert wire.to_broker == sent
        wire.release()
    assert engine.announced.bytes_of(1) == 0
    assert engine.request_pool.used_bytes == 0


@given(
    st.lists(
        st.tuples(st.integers(SMALL_BYTES + 1, 3 << 20), st.integers(1, 64 << 10)),
        min_size=1,
        max_size=8,
    )
)
def test_a_request_that_may_begin_streams_at_once(requests):
    """`may_begin` says what `begin` does; but nothing of one that is larger than ordinary ones."""
    engine = make_engine(pool_limits=PoolLimits(announced_bytes=2 << 20))
    announced = engine.announced
    for number, (whole_bytes, here_bytes) in enumerate(requests, 1):
        claim = Wire(engine).session.claim
        assert claim.is_free
        may_begin = announced.may_begin(None, whole_bytes, here_bytes)
        begins = announced.begin(claim, number, whole_bytes, here_bytes)
        assert claim.is_free == (begins != STREAMS and claim.line is None)
        if whole_bytes <= ORDINARY_BYTES or may_begin:
            assert may_begin == (begins == STREAMS)
