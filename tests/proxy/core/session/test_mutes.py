"""The reasons to mute a client, and that a session is bare."""

from __future__ import annotations

import gc
import weakref

import pytest

from policies.api import FORWARD, Need, Policy, Throttle
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.parts import SessionParts
from proxy.core.session.request_stream import Pending
from tests.support import frames as f
from tests.support import sasl
from tests.support.policies import Recorder
from tests.support.quiet import Quiet, assert_usual_again
from tests.support.sessions import Wire, make_engine
from tests.support.throttled import KINDS

NEEDS = pytest.mark.parametrize("needs", list(Need), ids=lambda need: need.name)
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
STAMPED = [name for name in KINDS if name != "heartbeat-v0"]


# -- one noun a class ---------------------------------------------------------------------------


def test_a_session_is_bare():
    """Slots only, and each of them set from the beginning."""
    session = Wire().session
    assert not hasattr(session, "__dict__")
    for name in SessionParts.__slots__:
        getattr(session, name)


def test_two_reasons_to_be_muted_are_taken_away_one_by_one():
    """What was read behind the mute has its turn with the last of them."""
    wire = Wire()
    session = wire.session
    session.mute_after_request(Mute.THROTTLED)
    session.mute_after_request(Mute.UPSTREAM_AUTH)
    buf = bytearray(f.heartbeat(1))
    session.from_client(buf, 0, len(buf), 0)
    session.unmute(Mute.THROTTLED)
    assert not session.paced
    session.unmute(Mute.UPSTREAM_AUTH)
    assert session.paced
    assert session in wire.engine.ready
    wire.advance(0)
    assert wire.to_broker == f.heartbeat(1)
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
        gone = weakref.ref(wire.session.queue.entries)
        del wire
        assert gone() is None
    finally:
        gc.enable()


def test_nobody_is_unmuted_twice():
    """A reason that does not hold is taken away without a word."""
    wire = Wire()
    wire.session.unmute(Mute.THROTTLED)
    assert not wire.engine.ready
    assert not wire.session.paced


def test_a_request_that_waits_says_what_was_decided_about_it():
    """Nothing yet, a verdict, or how its policy failed."""
    session = Wire().client(f.heartbeat(1)).session
    (plan,) = session.plans.by_kind.values()
    exchange = ObservedExchange(plan, 7, 20, 0, 1)
    assert Pending(exchange, None).verdict is None
    assert Pending(exchange, FORWARD) == (exchange, FORWARD)


def test_policies_that_hear_nothing_cost_replies_nothing():
    """A throttle on a request alone: the policy has no on_response for this API."""
    policy = Quiet()
    assert policy.response_apis == frozenset()
    wire = Wire(make_engine([policy])).client(f.beat(1)).broker(f.beat_reply(1))
    assert wire.to_client == f.beat_reply(1, 500)
    assert policy.heard == []
    assert Policy.response_apis is None
