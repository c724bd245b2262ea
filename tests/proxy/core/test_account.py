"""What is counted of a session and told of its requests; the laws are in test_counting, here is each door."""

from __future__ import annotations

from policies.api import EXEMPT, Throttle
from proxy.core.channel import Mute
from proxy.core.observer import Observer
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine


class Ear(Observer):
    def __init__(self) -> None:
        self.trails = []

    def on_trail(self, trail) -> None:
        self.trails.append(trail)


def listening(*policies, **options) -> tuple[Wire, Ear]:
    ear = Ear()
    engine = make_engine(policies, keeps_trails=True, **options)
    engine.observer = ear
    return Wire(engine), ear


def row(wire: Wire):
    """The running second of its key."""
    ends_ms = wire.engine.usage.ends_ms
    return wire.session.usage.take(ends_ms - 1000, ends_ms)


def test_nobody_listens_and_no_trail_is_made():
    """What would be told costs nothing then."""
    wire = Wire(make_engine(sample_every=1))
    wire.client(f.heartbeat(1) + f.heartbeat(2))
    assert all(exchange.trail is None for exchange in wire.session.queue)


def test_one_in_so_many_is_sampled():
    """Of the general path and of the fast loop alike."""
    wire, ear = listening(sample_every=3)
    for number in range(9):
        wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))
    assert [trail.sampled for trail in ear.trails] == [True] * 3


def test_a_throttle_whose_request_is_exempt_is_both():
    """The client is quiet, and no quota counts the request; it is no changed body."""
    wire = Wire(make_engine([Recorder(lambda _: Throttle(500, forward=EXEMPT))]))
    wire.client(f.heartbeat(1) + f.heartbeat(2))
    assert wire.to_broker == f.heartbeat(1)
    assert wire.session.client.muted & Mute.THROTTLED
    counted = row(wire)
    assert (counted.requests, counted.charged, counted.exempt) == (1, 0, 1)


def test_a_client_that_changes_its_name_takes_its_throttle_along():
    """The time it is quiet counts for whoever it is then."""
    wire = Wire(make_engine([Recorder(lambda _: Throttle(500))]))
    wire.client(f.heartbeat(1))
    first = wire.session.usage
    assert first.blocked.count == 1
    wire.session.take_key("alice", "app", wire.now_ms)
    assert first.blocked.count == 0
    assert wire.session.usage.blocked.count == 1
    wire.advance(500)
    assert wire.session.usage.blocked.count == 0
