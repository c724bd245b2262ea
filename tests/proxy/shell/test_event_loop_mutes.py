"""The event loop and muted clients: held ones that hang up, throttled ones that are read again."""

import pytest

from policies.api import FORWARD, Hold, Throttle
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.quiet import OnlyAsked
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive, reset


@pytest.fixture
def holding(make_bench):
    """Return an event loop whose policy holds every request once."""
    asked: set[int] = set()

    def decide(request):
        if request.exchange_id in asked:
            return FORWARD
        asked.add(request.exchange_id)
        return Hold(60_000, "key")

    return make_bench(make_engine([Recorder(decide)]))


@pytest.fixture
def throttling(make_bench):
    """Return an event loop whose policy throttles the first request by 500 ms."""
    return make_bench(make_engine([OnlyAsked(500)]))


def test_a_held_request_ends_when_its_client_hangs_up(holding):
    """The end of the connection is noticed once, although the client is muted."""
    client, broker, session = holding.link()
    client.sendall(f.heartbeat(1) + f.heartbeat(2))
    holding.run()
    assert session.held is not None
    client.close()
    assert holding.run() < 20
    assert session.held is None
    assert session.reason is CloseReason.CLIENT_CLOSED
    assert holding.engine.wake("key") == 0
    assert receive(broker, 10) == b""
    broker.close()
    holding.run()
    assert holding.event_loop.open_sockets == 0
    assert holding.held_bytes == 0


def test_a_held_client_that_sends_more_is_not_taken_for_closed(holding):
    """Its second request stays unread until the first one is forwarded."""
    client, broker, session = holding.link()
    client.sendall(f.heartbeat(1))
    holding.run()
    client.sendall(f.heartbeat(2))
    holding.run()
    assert session.held is not None
    assert holding.engine.wake("key") == 1
    holding.run()
    assert receive(broker, len(f.heartbeat(1))) == f.heartbeat(1)
    assert holding.engine.wake("key") == 1
    holding.run()
    assert receive(broker, len(f.heartbeat(2))) == f.heartbeat(2)


def test_held_requests_with_acks_0_are_forwarded_after_their_client_closed(holding):
    """Both requests are forwarded in order, and the event loop does not spin meanwhile."""
    client, broker, session = holding.link()
    asked = f.produce(1, acks=0) + f.produce(2, acks=0)
    client.sendall(asked)
    holding.run()
    client.close()
    assert holding.run() < 20
    assert session.held is not None
    for _ in range(2):
        assert holding.engine.wake("key") == 1
        holding.run()
    assert receive(broker, len(asked) + 1) == asked
    broker.close()
    holding.run()
    assert holding.event_loop.open_sockets == 0
    assert holding.engine.observer.closed == [(CloseReason.CLIENT_CLOSED, "")]


def test_a_held_client_that_resets_is_closed_at_once(holding):
    """Its hold ends, and the session closes with CLIENT_RESET."""
    client, _, session = holding.link()
    client.sendall(f.heartbeat(1))
    holding.run()
    reset(client)
    assert holding.run() < 20
    assert session.reason is CloseReason.CLIENT_RESET
    assert holding.engine.wake("key") == 0


def test_a_throttled_client_is_read_again_when_its_time_has_come(throttling):
    """Bytes that were read before the mute are kept, later ones stay in the kernel; the order is preserved."""
    client, broker, session = throttling.link()
    client.sendall(f.beat(1) + f.beat(2))
    throttling.run()
    client.sendall(f.beat(3))
    throttling.run()
    assert throttling.held_bytes == len(f.beat(2))
    assert receive(broker, len(f.beat(1))) == f.beat(1)
    throttling.clock.now_ms += 200
    broker.sendall(f.beat_reply(1))
    throttling.run()
    assert receive(client, 14) == f.beat_reply(1, 300)
    throttling.clock.now_ms += 299
    throttling.run()
    assert session.client.muted
    throttling.clock.now_ms += 1
    throttling.run()
    assert receive(broker, 2 * len(f.beat(1))) == f.beat(2) + f.beat(3)
    assert not session.client.muted
    assert throttling.held_bytes == 0


def test_a_throttled_client_that_closes_is_noticed_at_once(throttling):
    """A throttle may last for hours; a client that reconnects does not leave its old sockets open that long."""
    client, broker, session = throttling.link()
    client.sendall(f.beat(1))
    throttling.run()
    client.close()
    assert throttling.run() < 20
    assert session.ending
    receive(broker, len(f.beat(1)))
    broker.sendall(f.beat_reply(1))
    broker.close()
    throttling.run()
    assert throttling.event_loop.open_sockets == 0
    assert throttling.held_bytes == 0


def test_a_request_sent_before_a_throttled_client_closed_is_forwarded_when_the_throttle_ends(
    throttling,
):
    """Closing does not shorten the throttle, and the event loop does not spin meanwhile."""
    client, broker, session = throttling.link()
    client.sendall(f.beat(1))
    throttling.run()
    client.sendall(f.beat(2))
    client.close()
    assert throttling.run() < 20
    assert not session.ending
    assert throttling.run() == 0
    throttling.clock.now_ms += 500
    throttling.run()
    assert receive(broker, 2 * len(f.beat(1))) == f.beat(1) + f.beat(2)
    assert session.ending


def test_a_drain_forwards_a_held_request_and_delivers_its_reply(holding):
    """The request is forwarded at once; the session closes with DRAINED after its reply."""
    client, broker, session = holding.link()
    client.sendall(f.heartbeat(1))
    holding.run()
    holding.engine.drain()
    holding.run()
    assert receive(broker, len(f.heartbeat(1))) == f.heartbeat(1)
    broker.sendall(f.heartbeat_reply(1))
    holding.run()
    assert receive(client, 1000) == f.heartbeat_reply(1)
    assert session.reason is CloseReason.DRAINED


def test_a_client_that_the_fast_loop_throttles_is_not_read_any_more(make_bench):
    """One read's worth of bytes is held, although the client sends more."""
    bench = make_bench(make_engine([OnlyAsked(500, skip=1)]))
    client, broker, session = bench.link()
    client.sendall(f.beat(0))
    bench.run()
    client.sendall(f.beat(1) + f.beat(2))
    bench.run()
    for n in range(3, 6):
        client.sendall(f.beat(n))
        bench.run()
    assert bench.held_bytes == len(f.beat(2))
    assert session.client.muted
    bench.clock.now_ms += 500
    bench.run()
    asked = b"".join(f.beat(n) for n in range(6))
    assert receive(broker, len(asked)) == asked
    assert bench.held_bytes == 0


def test_a_client_that_is_throttled_at_its_reply_is_not_read_any_more(make_bench):
    """A request that arrived in the same step waits for the end of the throttle too."""
    bench = make_bench(make_engine([Recorder(hear=lambda _: Throttle(500))]))
    client, broker, session = bench.link()
    client.sendall(f.beat(1))
    bench.run()
    assert receive(broker, len(f.beat(1))) == f.beat(1)
    broker.sendall(f.beat_reply(1))
    client.sendall(f.beat(2))
    bench.run()
    assert receive(client, 14) == f.beat_reply(1, 500)
    client.sendall(f.beat(3))
    bench.run()
    assert session.client.muted
    assert bench.held_bytes in {0, len(f.beat(2))}
    bench.clock.now_ms += 500
    bench.run()
    assert receive(broker, 2 * len(f.beat(2))) == f.beat(2) + f.beat(3)
