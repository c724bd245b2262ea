"""The event loop and clients that are not read: held ones that hang up, throttled ones that come back."""

from __future__ import annotations

import pytest

from policies.api import FORWARD, Hold, Throttle
from proxy.core.errors import CloseReason
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.quiet import OnlyAsked
from tests.support.sessions import make_engine
from tests.support.sockets import Bench, receive, reset


def kept(bench: Bench) -> int:
    return bench.engine.request_pool.used_bytes + bench.engine.reply_pool.used_bytes


@pytest.fixture
def holding():
    """An event loop whose policy holds every request once."""
    asked: set[int] = set()

    def decide(request):
        if request.exchange_id in asked:
            return FORWARD
        asked.add(request.exchange_id)
        return Hold(60_000, "key")

    made = Bench(make_engine([Recorder(decide)]))
    yield made
    made.close()


@pytest.fixture
def throttling():
    """An event loop whose policy throttles the first request by 500 ms."""
    made = Bench(make_engine([OnlyAsked(500)]))
    yield made
    made.close()


def test_a_held_client_that_hangs_up_gives_its_place_back(holding):
    """Though nobody reads from it: its end is noticed all the same, once."""
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
    assert kept(holding) == 0


def test_a_held_client_that_stays_is_not_disturbed(holding):
    """What it sends meanwhile is not read, and not taken for its end."""
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


def test_a_sender_that_left_without_waiting_for_a_reply_is_not_forgotten(holding):
    """acks=0, then a close: what was sent is forwarded in its turn, and the event loop does not spin."""
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
    """As any other that is not read."""
    client, _, session = holding.link()
    client.sendall(f.heartbeat(1))
    holding.run()
    reset(client)
    assert holding.run() < 20
    assert session.reason is CloseReason.CLIENT_RESET
    assert holding.engine.wake("key") == 0


def test_a_throttled_client_is_read_again_when_its_time_has_come(throttling):
    """What it sent meanwhile waits in the kernel, what was read before waits here; the order stays."""
    client, broker, session = throttling.link()
    client.sendall(f.beat(1) + f.beat(2))
    throttling.run()
    client.sendall(f.beat(3))
    throttling.run()
    assert kept(throttling) == len(f.beat(2))
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
    assert kept(throttling) == 0


def test_a_throttled_client_that_closes_is_noticed_at_once(throttling):
    """Throttles may last for hours, and nobody's sockets wait so long: who reconnects leaves nothing behind."""
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
    assert kept(throttling) == 0


def test_what_a_throttled_client_sent_before_it_closed_goes_on_when_its_time_has_come(throttling):
    """It may have sent more in good faith; closing buys it nothing, and the event loop does not spin meanwhile."""
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


def test_a_drain_lets_a_held_request_have_its_reply(holding):
    """At once, over real sockets."""
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


def test_a_client_that_is_throttled_in_the_fast_loop_is_not_read_any_more():
    """However much it sends: what is held stays one read's worth."""
    bench = Bench(make_engine([OnlyAsked(500, skip=1)]))
    try:
        client, broker, session = bench.link()
        client.sendall(f.beat(0))
        bench.run()
        client.sendall(f.beat(1) + f.beat(2))
        bench.run()
        for n in range(3, 6):
            client.sendall(f.beat(n))
            bench.run()
        assert kept(bench) == len(f.beat(2))
        assert session.client.muted
        bench.clock.now_ms += 500
        bench.run()
        asked = b"".join(f.beat(n) for n in range(6))
        assert receive(broker, len(asked)) == asked
        assert kept(bench) == 0
    finally:
        bench.close()


def test_a_client_whose_reply_throttles_it_is_not_read_any_more():
    """Nor what came in the same step."""
    bench = Bench(make_engine([Recorder(hear=lambda _: Throttle(500))]))
    try:
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
        assert kept(bench) in {0, len(f.beat(2))}
        bench.clock.now_ms += 500
        bench.run()
        assert receive(broker, 2 * len(f.beat(2))) == f.beat(2) + f.beat(3)
    finally:
        bench.close()
