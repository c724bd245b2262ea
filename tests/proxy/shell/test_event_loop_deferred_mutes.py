"""The event loop and clients whose mute is deferred: throttled by a request after which they have sent nothing."""

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.mutes import mute_reasons
from tests.support.core.quiet import OnlyAsked
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive, reset


@pytest.fixture
def throttled(make_bench):
    """Return an event loop, the far ends of a link and its session, whose client is throttled by 500 ms."""
    bench = make_bench(make_engine([OnlyAsked(500, skip=1)]))
    bench.run()  # the first second ends
    client, broker, session = bench.link()
    client.sendall(f.beat(1))
    bench.run()
    client.sendall(f.beat(2))
    bench.run()
    assert receive(broker, 2 * len(f.beat(1))) == f.beat(1) + f.beat(2)
    broker.sendall(f.beat_reply(1))
    bench.run()
    assert receive(client, 14) == f.beat_reply(1)
    assert mute_reasons(session) == Mute.THROTTLED
    assert session.client.muted == 0
    return bench, client, broker, session


def test_a_client_that_waits_is_read_without_a_mute(throttled):
    """Its reply says how long to wait; no timer runs meanwhile."""
    bench, client, broker, session = throttled
    broker.sendall(f.beat_reply(2))
    bench.run()
    assert receive(client, 14) == f.beat_reply(2, 500)
    assert bench.engine.timers.size == 0
    bench.clock.now_ms += 500
    client.sendall(f.beat(3))
    bench.run()
    assert receive(broker, len(f.beat(3))) == f.beat(3)
    client.sendall(f.beat(4))
    bench.run()
    assert receive(broker, len(f.beat(4))) == f.beat(4)
    assert not session.diverted


def test_early_bytes_stay_in_the_kernel_until_the_throttle_ends(throttled):
    """They are not read, so that they take no memory here, and the event loop does not spin."""
    bench, client, broker, session = throttled
    client.sendall(f.beat(3) + f.beat(4))
    assert bench.run() < 20
    assert session.client.muted == Mute.THROTTLED
    assert bench.held_bytes == 0
    assert session.client.carry == b""
    bench.clock.now_ms += 499
    bench.run()
    assert session.client.muted == Mute.THROTTLED
    bench.clock.now_ms += 1
    bench.run()
    assert receive(broker, 2 * len(f.beat(3))) == f.beat(3) + f.beat(4)


def test_a_client_that_closes_early_frees_its_place(throttled):
    """It is noticed at once, as with a mute that began with the throttle."""
    bench, client, broker, session = throttled
    client.close()
    assert bench.run() < 20
    assert session.ending
    broker.sendall(f.beat_reply(2))
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert bench.held_bytes == 0


def test_a_client_that_sends_and_closes_early_is_served_when_the_throttle_ends(throttled):
    """Closing does not shorten the throttle, and the event loop does not spin meanwhile."""
    bench, client, broker, session = throttled
    client.sendall(f.beat(3))
    client.close()
    assert bench.run() < 20
    assert not session.ending
    assert bench.run() == 0
    bench.clock.now_ms += 500
    bench.run()
    assert receive(broker, len(f.beat(3))) == f.beat(3)
    assert session.ending


def test_a_client_that_resets_is_closed_at_once(throttled):
    """The session closes with CLIENT_RESET."""
    bench, client, _, session = throttled
    reset(client)
    assert bench.run() < 20
    assert session.reason is CloseReason.CLIENT_RESET


def test_a_drain_ends_a_session_with_a_deferred_mute(throttled):
    """It waits for the reply that is due, and for no throttle."""
    bench, client, broker, session = throttled
    bench.engine.drain()
    broker.sendall(f.beat_reply(2))
    bench.run()
    assert receive(client, 1000) == f.beat_reply(2, 500)
    assert session.reason is CloseReason.DRAINED
