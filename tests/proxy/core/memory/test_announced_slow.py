"""Announced bytes of slow clients: a slow request is gathered, or streams last, and yields to quicker ones."""

import pytest

from policies.api import Throttle
from proxy.core.errors import CloseReason
from proxy.core.memory.claim import PROBE_MS
from proxy.core.memory.slow_clients import START_MS, ReadLimits
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.messages.announced import (
    BOUND,
    LARGE,
    SENT,
    SLOW,
    begun,
    bounded,
    gathers,
    large,
    slow,
    waits,
)


@pytest.mark.parametrize("size_bytes", [100_000, 1_000_000, 10_000_000])
def test_a_slow_request_is_gathered_and_announced_last(size_bytes):
    """It is one of which little comes in a tenth of a second. The broker is told of it when all of it is here."""
    engine = bounded()
    wire = begun(engine, 1, size_bytes, sent=SLOW)
    assert wire.to_broker == b""
    wire.advance(PROBE_MS)
    wire.client(large(1, size_bytes)[SLOW : 2 * SLOW])
    assert gathers(wire)
    wire.client(large(1, size_bytes)[2 * SLOW : -1])
    assert wire.to_broker == b""
    assert engine.announced.bytes_of(1) == 0
    wire.client(large(1, size_bytes)[-1:])
    assert wire.to_broker == large(1, size_bytes)
    assert engine.request_pool.used_bytes == 0


def test_a_request_streams_as_soon_as_enough_of_it_is_here():
    """The first packet of a quick client may be small."""
    engine = bounded()
    wire = begun(engine, 1, 1_000_000, sent=14_000)
    assert wire.to_broker == b""
    wire.advance(1)
    wire.client(large(1, 1_000_000)[14_000:28_000])
    assert wire.to_broker == b""
    wire.client(large(1, 1_000_000)[28_000:42_000])
    assert wire.to_broker == large(1, 1_000_000)[:42_000]
    wire.client(large(1, 1_000_000)[42_000:])
    assert wire.to_broker == large(1, 1_000_000)


@pytest.mark.parametrize("probed", [False, True])
def test_a_client_that_leaves_before_its_request_begins_is_closed(probed):
    """The part of the request that it has sent is dropped; replies that are due still come."""
    recorder = Recorder()
    engine = bounded(BOUND, recorder)
    wire = Wire(engine, 1).client(f.heartbeat(1) + large(2)[:SLOW])
    if probed:
        wire.advance(PROBE_MS // 2)
        wire.client(large(2)[SLOW : 2 * SLOW])
    wire.session.client_gone(wire.now_ms)
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert wire.to_broker == f.heartbeat(1)
    assert engine.request_pool.used_bytes == 0


def test_slow_requests_that_are_too_large_to_be_gathered_stream_one_after_the_other():
    """They leave the place beyond the bound to a quick one."""
    engine = bounded(LARGE + 1000)
    wires = [slow(engine) for _ in range(3)]
    assert [waits(wire) for wire in wires] == [False, True, True]
    quick = begun(engine)
    assert not waits(quick)
    quick.client(large()[SENT:])
    assert quick.to_broker == large()
    for wire in wires:
        assert not waits(wire)
        wire.client(large()[2 * SLOW :])
        assert wire.to_broker == large()
    assert engine.announced.bytes_of(1) == 0


def test_waiting_requests_are_forwarded_by_when_they_would_end():
    """A quick one passes a slow one that came before, and a shorter one a longer one."""
    engine = bounded(LARGE + 1000)
    first, second = begun(engine), begun(engine, 2)
    assert not any(map(waits, (first, second)))
    wires = [slow(engine), begun(engine, 1, 30_000_000), begun(engine, 1, 17_000_000)]
    assert all(map(waits, wires))
    first.client(large()[SENT:])
    second.client(large(2)[SENT:])
    assert [waits(wire) for wire in wires] == [True, False, False]
    wires[1].client(large(1, 30_000_000)[SENT:])
    wires[2].client(large(1, 17_000_000)[SENT:])
    wires[0].client(large()[2 * SLOW :])
    assert [wire.to_broker for wire in wires] == [
        *(large(), large(1, 30_000_000), large(1, 17_000_000))
    ]


def drip(wire: Wire, seconds: int, rate: int = 1100) -> None:
    """Let so many seconds pass while the client sends so many bytes in each."""
    for _ in range(seconds):
        left = wire.session.request_left
        wire.client(large()[-left:][:rate])
        wire.advance(1000)


def test_a_streamed_request_that_stalls_is_closed():
    """The least rate is 1 KiB a second, judged after five seconds; a request that keeps it may take its time."""
    engine = bounded(limits=ReadLimits())
    silent, steady = slow(engine), begun(engine)
    drip(steady, 60)
    assert silent.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert f"of {len(large())} bytes of a request in {START_MS} ms" in silent.session.detail
    assert not steady.session.ended
    steady.client(large()[-steady.session.request_left :])
    assert steady.to_broker == large()


def test_after_its_deadline_a_slow_request_yields_to_a_quicker_one_that_waits():
    """Otherwise a request at the least rate could occupy a node for hours. One as slow as it only waits."""
    engine = bounded(LARGE - 1, limits=ReadLimits())
    engine.reservations.unread_bytes = lambda _: 1 << 16
    steady = begun(engine)
    drip(steady, 40)
    assert not steady.session.ended
    behind = begun(engine)
    assert waits(behind)
    drip(steady, 3)
    assert steady.session.reason is CloseReason.REQUEST_READ_TIMEOUT
    steady.release()
    assert not waits(behind)


def test_a_verdict_is_kept_while_the_first_bytes_of_a_slow_request_are_awaited():
    """The policies are asked once; a throttle begins when the request is gathered."""
    judge = Recorder(lambda _: Throttle(50), apis={f.PRODUCE})
    engine = bounded(BOUND, judge)
    wire = slow(engine, 1, 100_000)
    assert gathers(wire)
    wire.client(large(1, 100_000)[2 * SLOW :])
    assert wire.to_broker == large(1, 100_000)
    assert wire.session.client.muted & Mute.THROTTLED
    assert len(judge.asked) == 1
