"""Requests in flight are counted in the pool of requests at their real cost, and given back."""

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.session.channel import Mute
from proxy.core.session.crowding import MAX_BYTES
from proxy.core.session.exchange import Exchange
from proxy.core.session.in_flight import (
    EXCHANGE_BYTES,
    SWALLOWED_BYTES,
    UNCOUNTED,
    InFlight,
)
from proxy.core.turns import TURN_LABOUR_BYTES
from tests.support.core.policies import Silent
from tests.support.core.sessions import Wire, forget_ready, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply
from tests.support.messages.waiting import FETCH_MS, WAIT_MS, body_of

MIB = 1 << 20
READ_BYTES = 64 << 10
MANY = [(b"topic-%d" % n, [(p, b"r") for p in range(500)]) for n in range(4)]


def bounded(size_bytes: int, **options: int) -> Engine:
    """An engine whose pool of requests has this size."""
    return make_engine(pool_limits=PoolLimits(request_bytes=size_bytes), **options)


def pour(wire: Wire, data: bytes) -> int:
    """Pass the client's bytes through to the broker without a copy; return how many, before the client was muted."""
    session, engine, buf, pos = wire.session, wire.engine, bytearray(data), 0
    while (pos < len(buf) or session.client.carry) and not session.client.muted & Mute.IN_FLIGHT:
        end = (
            pos if session.client.muted else min(pos + READ_BYTES, len(buf))
        )  # paced: first what was read
        engine.turns.labour_bytes = TURN_LABOUR_BYTES
        session.resume()
        session.from_client(buf, pos - len(session.client.take()), end, wire.now_ms)
        session.broker.sent(session.broker.unsent_bytes)
        forget_ready(engine)
        pos = end
    return pos


def small(number: int) -> bytes:
    return f.produce(number)


def medium(number: int) -> bytes:
    return f.produce(number, size_bytes=900)


def large(number: int) -> bytes:
    return f.produce(number, size_bytes=3_000)


def wide(number: int) -> bytes:
    """2,000 partitions: more than a KiB is kept of it."""
    return f.request(f.PRODUCE, 3, number, body_of(3, MANY))


# -- the count is the real cost -------------------------------------------------------------------


@pytest.mark.parametrize("policies", [(), (Silent,)])
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (small, 2_000),
        (medium, 1_000),
        (large, 500),
        (f.beat, 1_000),
        (fetch, 1_000),
        (wide, 20),
    ],
)
def test_the_bytes_counted_for_pipelined_requests_are_those_they_hold(make, count, policies):
    """Within a quarter of the real memory, for small, large and very wide produces and for what keeps nothing."""
    wire = Wire(make_engine([each() for each in policies]))
    wire.client(make(1))
    data = b"".join(make(number) for number in range(1_000, 1_000 + count))
    gc.collect()
    tracemalloc.start()
    try:
        assert pour(wire, data) == len(data)
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(wire.session.queue) == 1 + count
    counted = wire.engine.request_pool.used_bytes
    assert abs(counted - real) < 0.25 * real, f"{counted} counted, {real} held"
    wire.release()
    assert wire.held_bytes == 0


def test_an_ordinary_pipeline_costs_nothing():
    """Up to UNCOUNTED requests belong to what every connection may use."""
    wire = Wire().client(f.beat(0)).broker(f.beat_reply(0))  # the first of its kind costs more
    wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED)))
    assert wire.held_bytes == 0
    wire.client(f.beat(99))
    assert wire.held_bytes == (UNCOUNTED + 1) * EXCHANGE_BYTES


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10_000)), max_size=60), st.data())
def test_everything_that_was_counted_is_given_back_once(reads, data):
    """However reads and replies alternate; and what came first goes first."""
    flight, given_back = InFlight(), 0
    for count, size_bytes in reads:
        flight.add(count, size_bytes)
        given_back += flight.take(data.draw(st.integers(0, flight.count)))
        assert flight.bytes == sum(piece[1] for piece in flight.pieces) >= 0
        assert flight.count == sum(piece[0] for piece in flight.pieces)
    given_back += flight.take(flight.count)
    assert given_back + flight.bytes == sum(size for _, size in reads)


# -- clients that are not read ----------------------------------------------------------------------


def test_connections_at_a_silent_broker_hold_what_the_pool_promises_and_no_more():
    """20 of them send 4,200 produces of a KiB each: they hold a MiB and a read each, not 100 MiB."""
    engine = bounded(MIB)
    wires = [Wire(engine, 1) for _ in range(20)]
    data = b"".join(map(medium, range(4_200)))
    for wire in wires:
        wire.client(f.produce(1)).broker(f.produce_reply(1))
        pour(wire, data)
    assert engine.request_pool.used_bytes < MIB + len(wires) * 2 * READ_BYTES
    assert all(wire.session.client.muted & Mute.IN_FLIGHT for wire in wires)
    assert engine.request_pool.is_depleted
    for wire in wires:
        wire.release()
    assert engine.request_pool.used_bytes == 0


def test_one_connection_alone_does_not_take_the_whole_pool():
    """It is muted at MAX_BYTES, and read again when half of it is answered."""
    wire = Wire(bounded(128 * MIB))
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    count = 2 * MAX_BYTES // EXCHANGE_BYTES
    read = pour(wire, b"".join(f.beat(n % 1000) for n in range(count))) // len(f.beat(1))
    assert wire.session.client.muted & Mute.IN_FLIGHT
    assert (
        MAX_BYTES
        < wire.held_bytes
        < MAX_BYTES + (READ_BYTES // len(f.beat(1)) + 2) * EXCHANGE_BYTES
    )
    replies = b"".join(f.beat_reply(n % 1000) for n in range(read))
    half = read // 2 // 1000 * 1000 * len(f.beat_reply(1))
    wire.broker(replies[: half - 200_000])
    assert wire.session.client.muted & Mute.IN_FLIGHT
    wire.broker(replies[half - 200_000 :])
    assert not wire.session.client.muted
    assert wire.held_bytes == 0


def test_a_client_with_nothing_in_flight_always_gets_a_request_through():
    """However full the pool is with what others have in flight."""
    engine = bounded(MIB)
    greedy, honest = Wire(engine, 1), Wire(engine, 2)
    honest.client(f.beat(1)).broker(f.beat_reply(1))
    greedy.client(f.beat(1)).broker(f.beat_reply(1))
    pour(greedy, b"".join(f.beat(n) for n in range(10_000)))
    assert engine.request_pool.is_out_of_memory()
    for n in range(2, 50):
        honest.client(f.beat(n))
        assert honest.to_broker.endswith(f.beat(n))
        honest.broker(f.beat_reply(n))
    assert honest.to_client.endswith(f.beat_reply(49))


def test_a_request_that_has_begun_ends_when_those_before_it_are_answered():
    """Even while others use up the pool: neither it nor the request after it waits for memory."""
    engine = bounded(MIB)
    wire = Wire(engine, 1)
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    engine.request_pool.force_allocate(MIB)
    begun = f.produce(99, size_bytes=100_000)
    wire.client(b"".join(f.beat(n) for n in range(20)) + begun + f.beat(100), 10_000)
    assert wire.session.client.muted & Mute.IN_FLIGHT
    wire.broker(b"".join(f.beat_reply(n) for n in range(20)))
    assert not wire.session.client.muted
    assert wire.to_broker.endswith(begun + f.beat(100))
    assert wire.held_bytes == MIB


def test_a_pool_held_by_a_silent_broker_is_free_again_after_the_deadlines():
    """The fetches are answered here, and what is left of them goes with the request timeout."""
    engine = bounded(MIB, request_timeout_ms=60_000)
    wire = Wire(engine, 1)
    wire.client(fetch(1)).broker(fetch_reply(1))
    pour(wire, b"".join(fetch(n) for n in range(10_000)))
    assert engine.request_pool.is_out_of_memory()
    full_bytes = wire.held_bytes
    wire.advance(FETCH_MS)
    for _ in range(40):
        wire.advance(1)
    assert sum(isinstance(each, Exchange) for each in wire.session.queue) <= 1  # half sent
    assert not wire.engine.request_pool.is_out_of_memory()
    left_bytes = full_bytes * SWALLOWED_BYTES / EXCHANGE_BYTES
    assert wire.engine.request_pool.used_bytes < 1.01 * left_bytes
    assert not wire.session.client.muted
    wire.advance(60_000)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    wire.release()
    assert wire.held_bytes == 0


# -- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["replied", "expired", "lost", "gone", "drained", "swallowed"])
def test_nothing_is_counted_after_the_end(end):
    """Whichever way a session ends with hundreds of requests in flight."""
    policy = Silent()
    for engine in (make_engine(), make_engine([policy])):
        wire = Wire(engine, 1)
        wire.client(f.produce(1)).broker(f.produce_reply(1))
        wire.client(b"".join(f.produce(n) + fetch(n) for n in range(200)))
        assert engine.request_pool.used_bytes > 400 * EXCHANGE_BYTES
        if end == "lost":
            wire.session.client_lost(wire.now_ms)
        elif end == "gone":
            wire.session.broker_gone(CloseReason.BROKER_RESET, wire.now_ms)
        elif end == "drained":
            wire.drain()
        elif end != "replied":
            wire.advance(WAIT_MS)
            for _ in range(3):
                wire.advance(1)
            assert len(f.split(wire.to_client)) == 401
        if end in {"replied", "swallowed"}:
            wire.broker(b"".join(f.produce_reply(n) + fetch_reply(n) for n in range(200)))
            wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED)))
            assert wire.held_bytes == 0
        wire.release()
        assert wire.held_bytes == 0
