"""Held requests end exactly once, whichever side closes first and wherever they are woken from."""

import pytest

from policies.api import FORWARD, Hold, Need, Outcome, Respond, Throttle
from proxy.core.errors import CloseReason
from tests.support.core.holding import (
    HOLD,
    NEEDS,
    REFUSE,
    REFUSED,
    Holding,
    assert_nothing_left,
    held,
)
from tests.support.core.policies import Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

# -- the end ------------------------------------------------------------------------------------


@NEEDS
@pytest.mark.parametrize("then", [FORWARD, REFUSE], ids=["forward", "refuse"])
def test_a_drain_ends_a_hold_at_once(needs, then):
    """The held request still gets a reply; the requests after it get none."""
    wire, policy = held(verdict=Hold(1000, "key", then), needs=needs)
    wire.client(f.heartbeat(2))
    wire.drain()
    assert wire.to_broker == (f.heartbeat(1) if then is FORWARD else b"")
    if then is FORWARD:
        assert not wire.session.ended
        wire.broker(f.heartbeat_reply(1))
    assert wire.to_client == f.reply(1, b"\x00\x00" if then is FORWARD else REFUSED)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.DRAINED
    assert policy.asked == [1]
    assert_nothing_left(wire)


def test_a_drain_does_not_wait_for_a_throttle():
    """A held request of a throttled client is forwarded at once."""
    policy = Holding(FORWARD, HOLD, hear=lambda _: Throttle(60_000))
    wire = Wire(make_engine([policy])).client(f.beat(1) + f.beat(2)).broker(f.beat_reply(1))
    wire.drain()
    assert wire.to_broker == f.beat(1) + f.beat(2)
    wire.broker(f.beat_reply(2))
    assert wire.session.ended
    assert_nothing_left(wire)


def test_no_request_is_held_while_the_proxy_drains():
    """A body becomes whole during the drain: the `then` of its policy's hold is applied at once."""
    asked = f.heartbeat(1, pad=200)
    policy = Holding(HOLD, needs=Need.BODY)
    wire = Wire(make_engine([policy])).client(asked[:50])
    wire.drain()
    wire.client(asked[50:])
    assert wire.to_broker == asked
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert_nothing_left(wire)


@NEEDS
def test_a_client_that_hangs_up_ends_its_held_request(needs):
    """Its key wakes nothing any more; the request before it still gets its reply."""
    policy = Holding(FORWARD, HOLD, needs=needs)
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + f.heartbeat(2) + f.heartbeat(3))
    wire.hang_up()
    assert wire.held_bytes == 0
    assert wire.engine.wake("key") == 0
    assert policy.completed == [(2, Outcome.DISCONNECTED)]
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_CLOSED
    assert wire.to_broker == f.heartbeat(1)
    assert wire.to_client == f.heartbeat_reply(1)
    assert_nothing_left(wire)


def test_a_session_that_is_ending_ends_when_the_client_of_its_held_request_hangs_up():
    """No other reply is due to the client."""
    wire, _ = held()
    wire.session.end_after_replies(CloseReason.OPERATOR)
    assert not wire.session.ended
    wire.hang_up()
    assert wire.session.ended
    assert_nothing_left(wire)


@NEEDS
def test_a_silent_request_stays_when_its_client_hangs_up(needs):
    """A producer with acks=0 may close right after it has sent its request."""
    wire, policy = held(needs=needs, asked=f.produce(1, acks=0))
    wire.hang_up()
    assert wire.session.held is not None
    assert wire.wake("key") == 1
    assert wire.to_broker == f.produce(1, acks=0)
    assert policy.completed == [(1, Outcome.NO_REPLY)]
    wire.session.client_gone(wire.now_ms)
    assert wire.session.ended
    assert_nothing_left(wire)


def test_a_session_does_not_end_under_a_held_request():
    """The held request came before the end was asked for, so it is still answered."""
    wire, policy = held()
    wire.session.end_after_replies(CloseReason.POLICY)
    assert not wire.session.ended
    wire.wake("key")
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert_nothing_left(wire)


def test_a_client_that_hangs_up_after_its_hold_keeps_its_session():
    """The request was forwarded in the same step."""
    wire, _ = held()
    wire.wake("key")
    wire.hang_up()
    assert not wire.session.ending


ENDS = {
    "broker": lambda wire: wire.session.broker_gone(CloseReason.BROKER_RESET, 0),
    "client": lambda wire: wire.session.client_lost(0),
    "release": lambda _: None,
    "timeout": lambda wire: wire.advance(500),
    "idle": lambda wire: wire.session.end_and_ask_for_turn(CloseReason.IDLE, "", 0),
    "operator": lambda wire: wire.session.end_and_ask_for_turn(CloseReason.OPERATOR, "", 0),
}
COUNTED = {"broker": "broker_gone", "client": "client_gone", "release": "client_gone"}


@NEEDS
@pytest.mark.parametrize("how", ENDS)
def test_a_connection_that_ends_completes_its_held_request(needs, how):
    """Once; its key, timer and bytes are given back, and its wait is counted by the side that closed."""
    policy = Holding(FORWARD, HOLD, needs=needs)
    wire = Wire(make_engine([policy], request_timeout_ms=500))
    wire.client(f.heartbeat(1) + f.heartbeat(2) + f.heartbeat(3))
    ENDS[how](wire)
    wire.settle()
    wire.release()
    assert sorted(policy.completed) == [(n, Outcome.DISCONNECTED) for n in (1, 2)]
    assert policy.asked == [1, 2]
    counted = {each: n for each, n in wire.engine.completions.items() if n}
    assert counted == {COUNTED.get(how, "closed"): 1}
    assert_nothing_left(wire)


def test_a_drain_that_takes_too_long_completes_a_request_that_was_held():
    """It had been forwarded by then, and is not answered."""
    policy = Holding(FORWARD, HOLD)
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + f.heartbeat(2) + f.heartbeat(3))
    wire.drain()
    wire.session.end(CloseReason.DRAIN_TIMEOUT, "", 0)
    wire.settle()
    wire.release()
    assert sorted(policy.completed) == [(n, Outcome.DISCONNECTED) for n in (1, 2)]
    assert_nothing_left(wire)


@NEEDS
@pytest.mark.parametrize("wrong", [RuntimeError("bug"), None, 42])
def test_a_policy_that_is_at_fault_when_asked_again_ends_that_session_only(needs, wrong):
    """It hears of the end once, the fault is reported, and the next held request is woken all the same."""
    policy = Holding(HOLD, HOLD, wrong, needs=needs)
    engine = make_engine([policy])
    first, second = Wire(engine).client(f.heartbeat(1)), Wire(engine).client(f.heartbeat(2))
    assert first.wake("key") == 2
    assert first.session.ended
    assert first.session.reason is CloseReason.POLICY_FAULT
    assert first.to_broker == b""
    assert first.watcher.policy_errors == [("p0", "on_request")]
    assert second.to_broker == f.heartbeat(2)
    first.release()
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert_nothing_left(second)


# -- woken from inside ----------------------------------------------------------------------------


class Limiter(Silent):
    """Allows one request in flight; each completion wakes the held request, which then gets `verdict`."""

    def __init__(self, verdict=FORWARD, **options):
        super().__init__(**options)
        self.verdict = verdict
        self.busy = False
        self.engine = None

    def on_request(self, request, peer, now_ms):
        super().on_request(request, peer, now_ms)
        if self.busy:
            return Hold(1000, "key")
        verdict = FORWARD if self.asked == [1] else self.verdict
        if isinstance(verdict, Exception):
            raise verdict
        self.busy = verdict is FORWARD
        return verdict

    def on_complete(self, request, outcome, peer, result, now_ms):
        super().on_complete(request, outcome, peer, result, now_ms)
        if self.busy:
            self.busy = False
            self.engine.wake("key")


@NEEDS
@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("verdict", [FORWARD, REFUSE, Respond(b"\x00\x07"), ValueError()], ids=str)
def test_a_request_may_be_woken_by_the_reply_before_it_on_its_own_connection(needs, chunk, verdict):
    """While that reply is being forwarded; the replies still keep their order."""
    policy = Limiter(verdict, needs=needs)
    engine = policy.engine = make_engine([policy])
    wire = Wire(engine).client(f.heartbeat(1) + f.heartbeat(2))
    assert wire.session.held is not None
    wire.broker(f.heartbeat_reply(1), chunk)
    assert wire.watcher.internal == []
    if isinstance(verdict, Exception):
        assert wire.session.reason is CloseReason.POLICY_FAULT
        assert wire.to_client == f.heartbeat_reply(1)
    else:
        assert not wire.session.ended
        sent = f.heartbeat(1) + (f.heartbeat(2) if verdict is FORWARD else b"")
        assert wire.to_broker == sent
        if verdict is FORWARD:
            wire.broker(f.heartbeat_reply(2), chunk)
        body = {FORWARD: b"\x00\x00", REFUSE: REFUSED}.get(verdict, b"\x00\x07")
        assert wire.to_client == f.heartbeat_reply(1) + f.reply(2, body)
        wire.client(f.heartbeat(3)).broker(f.heartbeat_reply(3) if verdict is FORWARD else b"")
        assert not wire.session.queue
        assert wire.session.queue.diverted == 0
    wire.release()
    assert [n for n, _ in policy.completed] == sorted(set(policy.asked))
    assert wire.held_bytes == 0
