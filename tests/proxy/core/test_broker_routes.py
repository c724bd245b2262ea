"""Sessions that are led to the wrong broker end in their turn, once any reply has named the address of their node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.broker_routes import FEW, SETTLE_MS, WINDOW_MS
from proxy.core.errors import CloseReason
from tests.support.core.routes import BOOTSTRAP, HOME, led, pass_time, tell
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f

AWAY = ("elsewhere", 9092)


def test_a_session_that_is_led_elsewhere_ends_when_the_address_becomes_known(engine):
    """The line of the log names both addresses."""
    wire = led(engine, AWAY)
    tell(engine, HOME)
    pass_time(wire, 20)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.ROUTE_CHANGED
    assert wire.session.detail == "it led to elsewhere:9092, and broker 1 is at node-1:9092"


@pytest.mark.parametrize(
    ("route", "node_id"), [(HOME, 1), (AWAY, 2), (BOOTSTRAP, None)], ids=["right", "other", "none"]
)
def test_sessions_that_are_led_right_or_belong_to_others_stay(engine, route, node_id):
    """Those of the node itself, of another node, and of the bootstrap port."""
    wire = led(engine, route, node_id)
    tell(engine, HOME)
    pass_time(wire, 10_000)
    assert not wire.session.ended


def test_at_most_a_few_end_in_each_tenth_of_a_second(engine):
    """A broker that moves does not cost all connections at once, and in the end all are led to it."""
    wires = [led(engine, AWAY) for _ in range(4 * FEW)]
    tell(engine, HOME)
    ended_ms: dict[int, int] = {}
    begun_ms = engine.now_ms
    while len(ended_ms) < len(wires) and engine.now_ms < begun_ms + 10_000:
        wires[0].advance(1)
        for place, wire in enumerate(wires):
            if wire.session.ended:
                ended_ms.setdefault(place, engine.now_ms)
    times = sorted(ended_ms.values())
    assert len(times) == len(wires)
    assert times[-1] - begun_ms <= 4 * WINDOW_MS
    for later, time_ms in enumerate(times[FEW:]):
        assert time_ms - times[later] >= WINDOW_MS - 1


def test_a_node_that_moves_is_followed_when_its_new_address_has_settled(engine):
    """Not before: the next reply may name the old one again."""
    tell(engine, AWAY)
    wire = led(engine, AWAY)
    tell(engine, HOME)
    pass_time(wire, SETTLE_MS - 10)
    assert not wire.session.ended
    pass_time(wire, 30)
    assert wire.session.reason is CloseReason.ROUTE_CHANGED


@settings(max_examples=25, deadline=None)
@given(st.integers(10, 20_000))
def test_brokers_that_contradict_each_other_do_not_cost_connections_without_end(every_ms):
    """However fast the address goes back and forth, a node's sessions end a few times at most."""
    engine = make_engine(now_ms=10_000_000)
    tell(engine, AWAY)
    ends = 0
    wire = led(engine, AWAY)
    for n in range(min(2000, 600_000 // every_ms)):
        tell(engine, (HOME, AWAY)[n % 2])
        pass_time(wire, every_ms, every_ms)
        pass_time(wire, 2, 1)
        if wire.session.ended:
            wire.release()
            ends += 1
            wire = led(engine, engine.topology.address_of(1))
    assert ends <= 6


def test_nothing_is_left_to_follow_after_the_last_session(engine):
    """The process may sleep, although a broker has moved a moment ago."""
    tell(engine, AWAY)
    wire = led(engine, AWAY)
    tell(engine, HOME)
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.session.client_gone(wire.now_ms)
    wire.release()
    assert engine.timers.size == 0


def test_a_session_may_be_led_by_a_name_of_the_same_broker(engine):
    """It ends once, and the next is led by the name that the broker gives itself."""
    wire = led(engine, ("127.0.0.1", 9092))
    tell(engine, ("localhost", 9092))
    pass_time(wire, 20)
    assert wire.session.ended
    again = led(engine, engine.topology.address_of(1))
    tell(engine, ("localhost", 9092))
    pass_time(again, 10_000)
    assert not again.session.ended
