"""The engine: sessions that begin and end, request timeouts, and ticks of policies."""

import pytest

from policies.api import FORWARD, Policy, Reject
from policies.chain import Chain, Entry
from policies.testing import BenchHost
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.questions import inquire
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f
from wire import apis
from wire.apis import ApiKey
from wire.errors import ErrorCode


class Doorman(Recorder):
    """Decides about connections."""

    def on_connect(self, peer, now_ms):
        return self.judge(peer)


class Ticking(Policy):
    """Remembers the times of its ticks."""

    Config = dict

    def __init__(self, tick_ms):
        super().__init__({}, BenchHost())
        self.tick_ms = tick_ms
        self.ticks: list[int] = []

    def on_tick(self, now_ms):
        self.ticks.append(now_ms)


def watcher(engine: Engine) -> Watcher:
    assert isinstance(engine.observer, Watcher)
    return engine.observer


# -- sessions begin and end ---------------------------------------------------------------------


def test_each_connection_is_a_session_of_its_own():
    """It has an id that is never used again, and the node of the port that it connected to."""
    engine = make_engine()
    first, second = engine.connect("10.0.0.9", 1, None), engine.connect("10.0.0.9", 2, 3)
    assert first is not None
    assert second is not None
    assert engine.sessions == {first, second}
    assert (first.peer.session_id, first.peer.node_id) == (1, None)
    assert (second.peer.session_id, second.peer.node_id) == (2, 3)
    assert (second.peer.host, second.peer.port) == ("10.0.0.9", 2)


def test_a_client_that_a_policy_refuses_gets_no_session():
    """The refusal is reported with its entry and reason, and policies are told nothing more of it."""
    door = Doorman(lambda _: Reject(ErrorCode.POLICY_VIOLATION))
    engine = make_engine([door])
    assert engine.connect("10.0.0.9", 1, None) is None
    assert engine.sessions == set()
    assert watcher(engine).closed == [(CloseReason.POLICY, "refused at connect")]
    (decision,) = watcher(engine).refused
    assert (decision.policy, decision.api_name, decision.closes) == ("p0", "", True)
    assert decision.peer.host == "10.0.0.9"
    assert door.gone == []


def test_a_policy_that_raises_at_connect_costs_this_client_only():
    """The engine returns None; nothing is raised into the acceptor."""

    def explode(peer):
        if peer.port == 1:
            raise RuntimeError("bug")
        return FORWARD

    engine = make_engine([Doorman(explode)])
    assert engine.connect("10.0.0.9", 1, None) is None
    assert watcher(engine).policy_errors == [("p0", "on_connect")]
    assert engine.connect("10.0.0.9", 2, None) is not None


def test_draining_ends_every_session_and_calls_the_event_loop():
    """Idle sessions end at once, the others when their requests in flight are answered."""
    engine = make_engine()
    idle, busy = Wire(engine), Wire(engine).client(f.heartbeat(1))
    engine.drain()
    assert idle.session.ready
    assert busy.session.ready
    assert idle.session.ended
    assert not busy.session.ended
    busy.broker(f.heartbeat_reply(1))
    assert busy.session.ended
    assert busy.session.reason is CloseReason.DRAINED


def test_sessions_that_changed_outside_a_read_are_queued_for_the_event_loop():
    """They are queued in order, each once."""
    engine = make_engine()
    first, second = Wire(engine).session, Wire(engine).session
    for session in (second, first, second):
        engine.ask_for_turn(session)
    assert [engine.turns.take(), engine.turns.take()] == [second, first]
    assert not engine.turns.queue
    assert first.uses_outboxes
    assert second.uses_outboxes


# -- requests that the broker does not answer ---------------------------------------------------


def silent(data: bytes, timeout_ms: int = 1000) -> Wire:
    return Wire(make_engine(request_timeout_ms=timeout_ms)).client(data)


def test_a_request_without_a_reply_ends_its_own_connection_only():
    """The log has its API and the time that it waited."""
    wire = silent(f.heartbeat(1))
    other = Wire(wire.engine)
    wire.advance(999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert wire.session.detail == "Heartbeat unanswered for 1000 ms"
    assert wire.given_turns
    assert not other.session.ended


@pytest.mark.parametrize("first", [f.heartbeat, f.produce])
def test_the_time_of_a_request_begins_with_its_turn(first):
    """The broker answers in order: it counts from the reply to the request before, a long poll too."""
    wire = silent(first(1) + f.heartbeat(2))
    wire.advance(700)
    wire.broker(f.heartbeat_reply(1) if first is f.heartbeat else f.produce_reply(1))
    wire.advance(999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.ended


def test_a_session_without_a_request_in_flight_has_no_timeout():
    """Its next request has one again, and a session that is released has no timer."""
    wire = silent(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.advance(5000)
    assert not wire.session.ended
    assert wire.engine.timers.next_ms() is None
    wire.client(f.heartbeat(2))
    wire.advance(1000)
    assert wire.session.ended
    wire.release()
    assert wire.engine.timers.next_ms() is None


@pytest.mark.parametrize("api_key", [ApiKey.JOIN_GROUP, ApiKey.PRODUCE])
def test_a_request_that_waits_for_others_has_no_timeout(api_key):
    """A rebalance has no time limit, and a long poll one of its own (`test_broker_waits`)."""
    lowest = apis.OFFERED[ApiKey.JOIN_GROUP][0]
    join = f.request(ApiKey.JOIN_GROUP, lowest, 1, b"\xff\xff\xff\xff" + bytes(60))
    wire = silent(join if api_key == ApiKey.JOIN_GROUP else f.produce(1))
    assert len(wire.session.queue) == 1
    for _ in range(10):
        wire.advance(1000)
    assert not wire.session.ended


def test_a_reply_that_is_arriving_is_not_timed_out():
    """It may be slow, as long as bytes arrive."""
    wire = silent(f.heartbeat(1))
    for at in range(50):
        wire.broker(f.reply(1, bytes(100))[at : at + 1])
        wire.advance(900)
    assert not wire.session.ended


def test_a_broker_that_stops_inside_a_reply_is_timed_out():
    """Memory reserved for the reply is released, whether or not its client is still connected."""
    for gone in (False, True):
        wire = silent(f.heartbeat(1)).broker(f.reply(1, bytes(100))[:50])
        if gone:
            wire.session.client_gone(wire.now_ms)
        wire.advance(999)
        assert not wire.session.ended
        wire.advance(1)
        assert wire.session.reason is (
            CloseReason.CLIENT_CLOSED if gone else CloseReason.UPSTREAM_REQUEST_TIMEOUT
        )
        assert "a reply stopped 58 bytes before its end, for 1000 ms" in wire.session.detail
        wire.release()
        assert wire.held_bytes == 0
        assert wire.engine.timers.size == 0


@pytest.mark.parametrize("data", [f.produce(1, acks=0), f.heartbeat(1)])
def test_a_broker_that_does_not_take_a_request_is_timed_out(data):
    """This holds too where no reply is due. A broker that takes some bytes now and then is not timed out."""
    engine = make_engine(request_timeout_ms=1000)
    wire = Wire(engine).client(data)
    wire.session.broker.put(data[5:])  # the kernel accepted no more
    for _ in range(5):
        engine.advance(engine.now_ms + 900)
        wire.session.broker.sent(1)
    for _ in range(3):
        engine.advance(engine.now_ms + 250)
        assert not wire.session.ended
    for _ in range(6):
        engine.advance(engine.now_ms + 250)
    assert wire.session.ended
    assert "bytes of requests not taken for" in wire.session.detail
    wire.release()
    assert wire.held_bytes == 0
    assert engine.timers.size == 0


@pytest.mark.parametrize("answered", [False, True])
def test_a_request_of_sluices_own_has_a_timeout_too(answered):
    """Later requests would wait for ever otherwise; one after it has a timeout of its own."""
    wire = Wire(make_engine(request_timeout_ms=1000))
    inquire(wire.session, f.heartbeat(77), 77, lambda _: None)
    wire.settle()
    if answered:
        wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(77))
    wire.advance(999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert wire.session.detail.startswith("Heartbeat" if answered else "a question of Sluice")


def test_a_broker_is_not_silent_while_its_client_does_not_read():
    """The broker may be waiting for Sluice to read more."""
    wire = silent(f.heartbeat(1))
    wire.session.client.put(b"still unsent")
    wire.engine.advance(5000)
    assert not wire.session.ended


def test_a_timeout_of_0_means_none():
    """A request may then wait for ever."""
    wire = silent(f.heartbeat(1), timeout_ms=0)
    assert wire.engine.timers.next_ms() is None
    wire.advance(10**9)
    assert not wire.session.ended


def test_a_request_of_a_muted_client_has_a_timeout_too():
    """The request was forwarded, and the broker owes its reply."""
    wire = silent(f.heartbeat(1))
    wire.session.client.mute(Mute.BACKPRESSURE)
    wire.advance(1000)
    assert wire.session.ended


# -- ticks -------------------------------------------------------------------------------------


def test_each_policy_is_ticked_at_its_own_interval():
    """Equal intervals of other policies do not matter; a policy with interval 0 is not ticked."""
    fast, other_fast, slow, never = Ticking(100), Ticking(100), Ticking(250), Ticking(0)
    engine = make_engine([fast, other_fast, slow, never])
    for now_ms in range(50, 501, 50):
        engine.advance(now_ms)
    assert fast.ticks == [100, 200, 300, 400, 500]
    assert other_fast.ticks == fast.ticks
    assert slow.ticks == [250, 500]
    assert never.ticks == []


def test_a_late_step_ticks_once():
    """Missed ticks are not repeated."""
    ticking = Ticking(100)
    engine = make_engine([ticking])
    engine.advance(1000)
    assert ticking.ticks == [1000]
    engine.advance(1099)
    assert ticking.ticks == [1000]
    engine.advance(1100)
    assert ticking.ticks == [1000, 1100]


def test_a_replaced_chain_is_not_ticked_any_more():
    """Its timer is cancelled at once, however far away it is; the new one has its own."""
    ticking, hourly = Ticking(100), Ticking(3_600_000)
    engine = make_engine([ticking, hourly])
    later = Ticking(200)
    engine.adopt_chain(Chain([Entry("later", later)], watcher(engine)))
    assert engine.timers.size == 1
    engine.advance(100)
    engine.advance(200)
    assert (ticking.ticks, later.ticks) == ([], [200])
    engine.adopt_chain(Chain([], watcher(engine)))
    assert engine.timers.next_ms() is None


# -- the identity of the client ---------------------------------------------------------------------


def test_a_fixed_user_is_the_user_of_all_clients():
    """A sidecar serves one application."""
    session = make_engine(fixed_user="billing").connect("10.0.0.9", 1, None)
    assert (session.peer.user, session.peer.principal_source) == ("billing", "fixed")
    session = make_engine().connect("10.0.0.9", 1, None)
    assert (session.peer.user, session.peer.principal_source) == ("ANONYMOUS", "none")
