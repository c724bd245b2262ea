"""The engine: waking held requests by key, and policies whose needs change."""

import pytest

from policies.api import FORWARD, Hold, Need, Outcome, Throttle
from proxy.core.engine import Engine
from proxy.core.session.paths import PASSES
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f


def keys(*watched: str) -> tuple[Engine, list[Wire], Recorder]:
    """Return a session for each of these keys, with one request held for it."""
    names = iter(watched)
    policy = Recorder(lambda _: Hold(1000, key) if (key := next(names, None)) else FORWARD)
    engine = make_engine([policy])
    return engine, [Wire(engine).client(f.heartbeat(n)) for n in range(len(watched))], policy


def test_requests_held_for_a_key_are_judged_again_once_when_it_is_woken():
    """They are judged in the order in which they began to wait; `wake` returns their number."""
    engine, wires, policy = keys("key", "key", "other")
    engine.advance(42)
    policy.peers.clear()
    assert engine.wake("key") == 2
    assert [peer.session_id for peer in policy.peers] == [1, 2]
    assert engine.wake("key") == 0
    assert engine.wake("an unused key") == 0
    wires[2].settle()
    wires[0].advance(0)
    assert [bool(wire.to_broker) for wire in wires] == [True, True, False]


def test_a_request_that_is_held_again_while_woken_waits_for_the_next_wake_up():
    """One wake-up never judges a request twice."""
    engine, (wire,), policy = keys("key")
    policy.judge = lambda _: Hold(1000, "key")
    for n in range(2, 5):
        assert engine.wake("key") == 1
        assert len(policy.asked) == n
    policy.judge = lambda _: FORWARD
    assert wire.wake("key") == 1
    assert wire.to_broker == f.heartbeat(0)


def test_a_request_that_ended_its_wait_is_not_woken():
    """One reached its deadline and one client disconnected; the others keep their places."""
    engine, wires, policy = keys("key", "key", "key")
    assert (engine.holds.num_delayed, engine.holds.watched) == (3, 3)
    wires[0].hang_up()
    assert engine.holds.num_delayed == 2
    assert engine.wake("key") == 2
    assert (engine.holds.num_delayed, engine.holds.watched) == (0, 0)
    assert len(policy.asked) == 5


def test_a_wake_up_from_inside_a_policy_judges_held_requests_at_once():
    """They are judged before `wake` returns; their bytes move in a turn of their own."""
    engine, (wire,), policy = keys("key")
    woken: list[int] = []

    def wake(_):
        if len(policy.asked) == 2:
            woken.append(engine.wake("key"))
            woken.append(len(policy.asked))
        return FORWARD

    policy.judge = wake
    other = Wire(engine).client(f.heartbeat(9))
    assert woken == [1, 3]
    assert other.to_broker == f.heartbeat(9)
    assert wire.given_turns
    assert wire.to_broker == f.heartbeat(0)


# -- needs that change ----------------------------------------------------------------------------


def test_changed_needs_apply_after_reconsider():
    """They apply from the next request on, on every connection; without needs the policy costs nothing."""
    policy = Recorder(apis=())
    engine = make_engine([policy])
    wire = Wire(engine).client(f.beat(1))
    assert wire.session.queue[0].plan.request_path == PASSES
    policy.apis = frozenset({f.HEARTBEAT})
    wire.client(f.beat(2))
    assert policy.asked == []
    engine.reconsider()
    wire.client(f.beat(3))
    assert len(policy.asked) == 1
    policy.apis = frozenset()
    engine.reconsider()
    wire.client(f.beat(4))
    assert len(policy.asked) == 1
    assert wire.session.queue[3].plan.request_path == PASSES
    wire.broker(b"".join(f.beat_reply(n) for n in (1, 2, 3, 4)))
    assert wire.to_client == b"".join(f.beat_reply(n) for n in (1, 2, 3, 4))


@pytest.mark.parametrize("ms", [0, 500])
def test_requests_in_flight_end_with_the_hooks_that_they_began_with(ms):
    """A policy that judged a request is told of its reply and its end, although its needs have changed."""
    policy = Recorder(lambda _: Throttle(ms) if ms else FORWARD)
    engine = make_engine([policy])
    wire = Wire(engine).client(f.beat(1))
    policy.apis = frozenset()
    engine.reconsider()
    wire.broker(f.beat_reply(1))
    assert policy.heard == [(1, 10)]
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert wire.to_client == f.beat_reply(1, ms)


def test_a_held_request_is_judged_again_by_the_policy_that_held_it():
    """This holds although the policy would not be asked about the next request."""
    engine, (wire,), policy = keys("key")
    policy.apis = frozenset()
    engine.reconsider()
    wire.client(f.heartbeat(7))
    assert wire.wake("key") == 1
    assert policy.asked == [1, 1]
    assert wire.to_broker == f.heartbeat(0) + f.heartbeat(7)


def test_a_policy_may_change_its_needs_inside_on_request():
    """The request that it is asked about ends with the hooks that it began with."""

    def change(_):
        policy.apis = frozenset()
        engine.reconsider()
        return FORWARD

    policy = Recorder(change)
    engine = make_engine([policy])
    wire = Wire(engine).client(b"".join(f.heartbeat(n) for n in range(5)))
    assert policy.asked == [1]
    wire.broker(b"".join(f.heartbeat_reply(n) for n in range(5)))
    assert policy.completed == [(1, Outcome.REPLIED)]


def test_a_larger_need_applies_from_the_next_request_on():
    """A plan that was made for Need.HEADER is not used for Need.BODY."""
    policy = Recorder()
    engine = make_engine([policy])
    wire = Wire(engine).client(f.heartbeat(1) + f.heartbeat(2))
    policy.needs = Need.BODY
    engine.reconsider()
    wire.client(f.heartbeat(3))
    assert [body is not None for body in policy.bodies] == [False, False, True]
