"""The engine: who waits for a key, and what policies wish for by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policies.api import FORWARD, Hold, Need, Outcome, Throttle
from proxy.core.errors import CloseReason
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine

if TYPE_CHECKING:
    from proxy.core.engine import Engine


def keys(*watched: str) -> tuple[Engine, list[Wire], Recorder]:
    """A session for each of these keys, with one request held for it."""
    names = iter(watched)
    policy = Recorder(lambda _: Hold(1000, key) if (key := next(names, None)) else FORWARD)
    engine = make_engine([policy])
    return engine, [Wire(engine).client(f.heartbeat(n)) for n in range(len(watched))], policy


def test_what_waits_for_a_key_is_asked_again_once_when_it_is_woken():
    """In the order in which it began to wait; how many that were is told."""
    engine, wires, policy = keys("key", "key", "other")
    engine.advance(42)
    policy.peers.clear()
    assert engine.wake("key") == 2
    assert [peer.session_id for peer in policy.peers] == [1, 2]
    assert engine.wake("key") == 0
    assert engine.wake("nobody waits for this") == 0
    wires[2].settle()
    wires[0].advance(0)
    assert [bool(wire.to_broker) for wire in wires] == [True, True, False]


def test_who_waits_again_while_woken_is_asked_the_next_time():
    """Waking never goes round in a circle."""
    engine, (wire,), policy = keys("key")
    policy._decide = lambda _: Hold(1000, "key")
    for n in range(2, 5):
        assert engine.wake("key") == 1
        assert len(policy.asked) == n
    policy._decide = lambda _: FORWARD
    assert wire.wake("key") == 1
    assert wire.to_broker == f.heartbeat(0)


def test_who_does_not_wait_any_more_is_not_woken():
    """One deadline, one hang-up: the others keep their places."""
    engine, wires, policy = keys("key", "key", "key")
    assert (engine.holds.num_delayed, engine.holds.watched) == (3, 3)
    wires[0].hang_up()
    assert engine.holds.num_delayed == 2
    assert engine.wake("key") == 2
    assert (engine.holds.num_delayed, engine.holds.watched) == (0, 0)
    assert len(policy.asked) == 5


def test_who_has_gone_does_not_stay_in_the_lists_for_ever():
    """They are purged when there are more of them than `purge_interval`."""
    engine = make_engine([Recorder(lambda _: Hold(10_000, "key"))], purge_interval=10)
    for _ in range(100):
        Wire(engine).client(f.heartbeat(0)).hang_up()
    assert engine.holds.num_delayed == 0
    assert engine.holds.watched <= 11


def test_waking_from_inside_a_policy_reaches_other_sessions_at_once():
    """It is asked before `wake` returns; its bytes move in a turn of its own."""
    engine, (wire,), policy = keys("key")
    woken: list[int] = []

    def wake(_):
        if len(policy.asked) == 2:
            woken.append(engine.wake("key"))
            woken.append(len(policy.asked))
        return FORWARD

    policy._decide = wake
    other = Wire(engine).client(f.heartbeat(9))
    assert woken == [1, 3]
    assert other.to_broker == f.heartbeat(9)
    assert wire.attended
    assert wire.to_broker == f.heartbeat(0)


# -- wishes that change ---------------------------------------------------------------------------


def test_what_a_policy_wants_is_looked_at_again_when_it_says_so():
    """From the next request on, on every connection; asked for nothing, it costs nothing."""
    policy = Recorder(apis=())
    engine = make_engine([policy])
    wire = Wire(engine).client(f.beat(1))
    assert wire.session.queue[0].plan.simple
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
    assert wire.session.queue[3].plan.simple
    wire.broker(b"".join(f.beat_reply(n) for n in (1, 2, 3, 4)))
    assert wire.to_client == b"".join(f.beat_reply(n) for n in (1, 2, 3, 4))


@pytest.mark.parametrize("ms", [0, 500])
def test_requests_in_flight_end_with_the_hooks_they_began_with(ms):
    """Who was asked hears the reply and the end, whatever it wishes for meanwhile."""
    policy = Recorder(lambda _: Throttle(ms) if ms else FORWARD)
    engine = make_engine([policy])
    wire = Wire(engine).client(f.beat(1))
    policy.apis = frozenset()
    engine.reconsider()
    wire.broker(f.beat_reply(1))
    assert policy.heard == [(1, 10)]
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert wire.to_client == f.beat_reply(1, ms)


def test_what_is_held_goes_on_with_the_hooks_it_began_with():
    """Its holder is asked again, though it would not be asked about the next."""
    engine, (wire,), policy = keys("key")
    policy.apis = frozenset()
    engine.reconsider()
    wire.client(f.heartbeat(7))
    assert wire.wake("key") == 1
    assert policy.asked == [1, 1]
    assert wire.to_broker == f.heartbeat(0) + f.heartbeat(7)


def test_a_policy_may_change_its_wishes_in_the_middle_of_being_asked():
    """Its own request ends as it began."""

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


def test_a_policy_that_raises_about_what_it_no_longer_wants_is_still_to_blame():
    """It was asked when it wanted to be."""

    def explode(_):
        raise RuntimeError("bug")

    policy = Recorder(hear=explode)
    engine = make_engine([policy])
    wire = Wire(engine).client(f.heartbeat(1))
    policy.apis = frozenset()
    engine.reconsider()
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.watcher.policy_errors == [("p0", "on_response")]
    assert wire.watcher.internal == []


def test_a_need_that_grows_holds_from_the_next_request_on():
    """A plan that was made for the header is not used for a body."""
    policy = Recorder()
    engine = make_engine([policy])
    wire = Wire(engine).client(f.heartbeat(1) + f.heartbeat(2))
    policy.needs = Need.BODY
    engine.reconsider()
    wire.client(f.heartbeat(3))
    assert [body is not None for body in policy.bodies] == [False, False, True]
