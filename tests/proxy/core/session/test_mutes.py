"""The reasons to mute a client."""

import gc
import weakref

import pytest

from policies.api import QuotaViolation, Throttle
from proxy.core.session import mutes
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.quiet import assert_usual_again
from tests.support.core.session_state import is_throttled
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl


def test_two_reasons_to_be_muted_are_taken_away_one_by_one():
    """Bytes read during the mute are handled when the last reason is taken away."""
    wire = Wire()
    session = wire.session
    mutes.mute_after_request(session, Mute.THROTTLED)
    mutes.mute_after_request(session, Mute.UPSTREAM_AUTH)
    buf = bytearray(f.heartbeat(1))
    session.from_client(buf, 0, len(buf), 0)
    mutes.unmute(session, Mute.THROTTLED)
    assert not session.paced
    mutes.unmute(session, Mute.UPSTREAM_AUTH)
    assert session.paced
    assert session.ready
    wire.advance(0)
    assert wire.to_broker == f.heartbeat(1)
    mutes.unmute(session, Mute.THROTTLED)  # it does not hold, so nothing is scheduled
    assert not wire.engine.turns.queue
    assert_usual_again(wire)


def test_a_session_that_was_throttled_is_freed_without_collecting():
    """Nothing that is made for a throttle refers to itself; a token's plan refers to its session."""
    gc.collect()
    gc.disable()
    try:
        wire = Wire(make_engine([Recorder(lambda _: Throttle(500))]))
        wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, sasl.plain("alice", "x")))
        wire.advance(500)
        wire.broker(sasl.handshake_reply(1) + sasl.authenticate_reply(2))
        wire.advance(1000)
        wire.release()
        wire.session.queue.deepen()  # a deque takes weak references
        gone = weakref.ref(wire.session.queue.entries)
        del wire
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("shorten_ms", [None, 100, 300, 500], ids=str)
def test_throttles_of_a_session_share_one_place_on_the_timing_wheel(shorten_ms):
    """Prolonged, shortened to then or now, and given again: it ends once each time, at its time, and leaves nothing."""
    why = QuotaViolation("user=alice", "request_rate", 12.0, 10.0)
    times = iter([200, 400] * 3)
    wire = Wire(make_engine([Recorder(hear=lambda _: Throttle(next(times), why=why))]))
    session, timers = wire.session, wire.engine.timers
    for begun_ms in (0, 1000, 2000):
        wire.advance(begun_ms - wire.now_ms)
        wire.client(f.beat(1) + f.beat(2)).broker(f.beat_reply(1) + f.beat_reply(2))
        assert (timers.size, is_throttled(session)) == (1, True)
        if begun_ms == 2000:
            break
        wire.advance(100)
        ends_ms = 400
        if shorten_ms is not None:
            wire.engine.review_throttles(lambda _peer, _why, at=begun_ms + shorten_ms: at)
            ends_ms = min(ends_ms, shorten_ms)
        wire.advance(max(0, ends_ms - 1 - 100))
        assert is_throttled(session) == (ends_ms > 100)
        wire.advance(1)
        assert (timers.size, is_throttled(session)) == (0, False)
        assert not session.client.muted & Mute.THROTTLED
    wire.release()
    assert timers.next_ms() is None
