"""Held requests: held before their first byte, asked about again, and always ended exactly once.

`test_differential.py` has every verdict on one that is asked about again, in any order of events.
"""

import pytest

from policies.api import FORWARD, Forward, Hold, Need, Outcome, Patch, Throttle
from proxy.core.session.channel import Mute
from tests.support.core.holding import (
    HOLD,
    NEEDS,
    REFUSE,
    REFUSED,
    Holding,
    assert_nothing_left,
    held,
)
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.throttled import fetch


@NEEDS
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_held_request_waits_before_its_first_byte_and_keeps_the_order(needs, chunk):
    """The request before it is answered; the request after it stays unread, and is counted."""
    policy = Holding(FORWARD, HOLD, needs=needs)
    wire = Wire(make_engine([policy]))
    wire.client(f.heartbeat(1) + f.produce(2) + f.heartbeat(3), chunk)
    assert wire.to_broker == f.heartbeat(1)
    assert wire.session.client.muted & Mute.HELD
    kept = f.produce(2) + f.heartbeat(3)
    assert wire.held_bytes + len(wire.unread) == len(kept)
    wire.broker(f.heartbeat_reply(1))
    assert wire.to_client == f.heartbeat_reply(1)
    assert wire.wake("key") == 1
    assert policy.asked == [1, 2, 2, 3]
    assert wire.to_broker == f.heartbeat(1) + kept
    assert not wire.session.client.muted
    wire.broker(f.produce_reply(2) + f.heartbeat_reply(3), chunk)
    assert policy.completed == [(n, Outcome.REPLIED) for n in (1, 2, 3)]
    assert_nothing_left(wire)


def test_a_request_is_held_at_once_although_sessions_wait_for_turns():
    """Its key may be woken before the session's next turn: that must not be lost."""
    policy = Holding(FORWARD, HOLD)
    wire = Wire(make_engine([policy])).client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.engine.turns.labour_bytes = 0  # as in a step whose time is over
    asked = bytearray(f.heartbeat(2))
    wire.session.from_client(asked, 0, len(asked), wire.now_ms)
    assert policy.asked == [1, 2]
    assert wire.wake("key") == 1
    wire.settle()
    assert wire.to_broker == f.heartbeat(1) + f.heartbeat(2)
    wire.broker(f.heartbeat_reply(2))
    assert_nothing_left(wire)


@pytest.mark.parametrize("begun_bytes", [100, 1000], ids=["as it arrives", "while it is held"])
def test_a_held_request_that_is_woken_during_a_throttle_waits_for_its_end(begun_bytes):
    """Its policy is asked at once. Whenever the throttle came: the request had not been forwarded."""
    asked = f.heartbeat(2, pad=200)
    policy = Holding(FORWARD, HOLD, needs=Need.BODY, hear=lambda _: Throttle(400))
    wire = Wire(make_engine([policy])).client(f.beat(1) + asked[:begun_bytes])
    wire.broker(f.beat_reply(1)).client(asked[begun_bytes:])
    assert wire.wake("key") == 1
    assert policy.asked == [1, 2, 2]
    wire.advance(399)
    assert wire.to_broker == f.beat(1)
    wire.advance(1)
    assert wire.to_broker == f.beat(1) + asked
    wire.broker(f.heartbeat_reply(2))
    assert_nothing_left(wire)


def test_a_held_fetch_is_asked_again_with_its_head_and_may_be_patched():
    """The head is complete when it is held, and still there when it is woken."""
    smaller = Forward(patches=(Patch(12, (77).to_bytes(4, "big")),))
    wire, policy = held(smaller, needs=Need.HEAD, asked=fetch(1))
    assert policy.heads[0].max_bytes == 1 << 20
    wire.wake("key")
    assert policy.heads[1] is policy.heads[0]
    assert wire.to_broker == fetch(1, max_bytes=77)
    assert_nothing_left(wire)


def test_a_held_produce_streams_with_its_walker_once_it_is_let_through():
    """Its topics fill as the body passes, as if it had never waited."""
    asked = f.produce(1, topic="orders", size_bytes=900)
    wire, policy = held(needs=Need.HEAD, asked=asked[:100])
    wire.wake("key")
    wire.client(asked[100:], 30)
    assert wire.to_broker == asked
    assert policy.heads[1].topics == [("orders", [0])]
    assert_nothing_left(wire)


@NEEDS
@pytest.mark.parametrize("then", [FORWARD, REFUSE], ids=["forward", "refuse"])
def test_at_the_deadline_of_a_hold_its_then_is_applied_without_asking_again(needs, then):
    """Sluice makes the reply when `then` refuses."""
    wire, policy = held(verdict=Hold(1000, "key", then), needs=needs)
    wire.advance(999)
    assert wire.session.held is not None
    wire.advance(1)
    assert policy.asked == [1]
    assert wire.to_broker == (f.heartbeat(1) if then is FORWARD else b"")
    if then is FORWARD:
        wire.broker(f.heartbeat_reply(1))
    assert wire.to_client == f.reply(1, b"\x00\x00" if then is FORWARD else REFUSED)
    outcome = Outcome.REPLIED if then is FORWARD else Outcome.ANSWERED
    assert policy.completed == [(1, outcome)]
    assert wire.engine.wake("key") == 0
    assert_nothing_left(wire)


def test_a_held_sasl_token_is_read_only_when_it_is_forwarded():
    """The request after it waits for its turn and for the broker's answer to the token."""
    policy = Holding(FORWARD, Hold(1000, "key"))
    wire = Wire(make_engine([policy]))
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, sasl.plain("alice", "x")))
    wire.client(f.heartbeat(3)).broker(sasl.handshake_reply(1))
    assert wire.to_broker == sasl.handshake(1, "PLAIN")
    wire.wake("key")
    assert wire.session.client.muted == Mute.UPSTREAM_AUTH
    assert policy.asked == [1, 2, 2]
    wire.broker(sasl.authenticate_reply(2))
    assert wire.to_broker.endswith(f.heartbeat(3))
    assert [peer.user for peer in policy.peers] == ["ANONYMOUS"] * 3 + ["alice"]
    assert_nothing_left(wire)


def test_a_throttled_sasl_token_mutes_for_two_reasons():
    """The next request is forwarded when both have ended."""
    policy = Holding(FORWARD, Throttle(500))
    wire = Wire(make_engine([policy]))
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, sasl.plain("alice", "x")))
    wire.client(f.heartbeat(3))
    assert wire.session.client.muted == Mute.UPSTREAM_AUTH | Mute.THROTTLED
    wire.broker(sasl.handshake_reply(1) + sasl.authenticate_reply(2))
    assert wire.session.client.muted == Mute.THROTTLED
    wire.advance(500)
    assert wire.to_broker.endswith(f.heartbeat(3))
    assert policy.peers[-1].user == "alice"
    assert_nothing_left(wire)
