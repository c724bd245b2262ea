"""The event loop between real sockets, stepped by hand: what moves, what waits, and how sides end."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import suppress

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.in_flight import EXCHANGE_BYTES
from proxy.core.session.state import UNCOUNTED
from proxy.shell.event_loop import FLUSH_MS, LINGER_MS
from tests.support import frames as f
from tests.support.sessions import Watcher
from tests.support.sockets import Bench, receive, reset


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.close()


def watcher(bench: Bench) -> Watcher:
    assert isinstance(bench.engine.observer, Watcher)
    return bench.engine.observer


def held(bench: Bench) -> int:
    return bench.engine.request_pool.used_bytes + bench.engine.reply_pool.used_bytes


def test_bytes_move_both_ways(bench):
    """A request out, its reply back."""
    client, broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    assert receive(broker, len(f.heartbeat(1))) == f.heartbeat(1)
    broker.sendall(f.heartbeat_reply(1))
    bench.run()
    assert receive(client, len(f.heartbeat_reply(1))) == f.heartbeat_reply(1)


def test_a_broker_that_does_not_read_mutes_its_client_and_nothing_is_lost(bench):
    """Backpressure: what is held stays bounded, and all of it arrives in the end."""
    client, broker, session = bench.link()
    stream = b"".join(f.produce(n, size_bytes=500_000) for n in range(16))
    sender = threading.Thread(target=client.sendall, args=(stream,))
    sender.start()
    for _ in range(200):
        bench.event_loop.step(0.01)
        if session.client.muted & Mute.BACKPRESSURE:
            break
    assert session.client.muted & Mute.BACKPRESSURE
    assert 0 < held(bench) <= 256 << 10
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(broker, len(stream))))
    reader.start()
    while reader.is_alive():
        bench.event_loop.step(0.01)
    sender.join()
    assert bytes(got) == stream
    assert held(bench) == 0
    assert not session.client.muted


def test_a_client_that_does_not_read_stops_its_broker(bench):
    """The same the other way round; other links are not touched."""
    client, broker, session = bench.link()
    other_client, other_broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    big = f.reply(1, bytes(12_000_000))
    sender = threading.Thread(target=broker.sendall, args=(big,))
    sender.start()
    for _ in range(200):
        bench.event_loop.step(0.01)
        if session.broker.muted & Mute.BACKPRESSURE:
            break
    assert session.broker.muted & Mute.BACKPRESSURE
    other_client.sendall(f.heartbeat(9))
    bench.run()
    assert receive(other_broker, len(f.heartbeat(9))) == f.heartbeat(9)
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(client, len(big))))
    reader.start()
    while reader.is_alive():
        bench.event_loop.step(0.01)
    sender.join()
    assert bytes(got) == big


def test_a_half_closed_client_gets_its_reply_and_then_both_sides_end(bench):
    """Reply first, then close."""
    client, broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    client.shutdown(1)
    bench.run()
    broker.sendall(f.heartbeat_reply(1))
    bench.run()
    assert receive(client, 1000) == f.heartbeat_reply(1)
    assert receive(broker, 1000) == f.heartbeat(1)
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert watcher(bench).closed == [(CloseReason.CLIENT_CLOSED, "")]


def test_closing_never_cuts_off_replies_that_are_due(bench):
    """The client has pipelined bytes we never read; a plain close would reset and lose its replies."""
    client, broker, session = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    receive(broker, len(f.heartbeat(1)))
    big = f.reply(1, bytes(4_000_000))
    sender = threading.Thread(target=broker.sendall, args=(big,))
    sender.start()
    for _ in range(200):
        bench.event_loop.step(0.01)
        if session.client.outbox:
            break
    client.sendall(b"".join(f.heartbeat(n) for n in range(2, 50)))  # nobody will read these
    session.drain()
    bench.engine.attend(session)
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(client, len(big) + 1)))
    reader.start()
    while reader.is_alive():
        bench.event_loop.step(0.01)
    sender.join()
    assert bytes(got) == big
    client.close()
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 0


def test_a_reset_client_costs_its_own_link_only(bench):
    """And its broker side is closed too."""
    client, broker, _ = bench.link()
    other, other_broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    reset(client)
    bench.run()
    assert receive(broker, 1000) == f.heartbeat(1)
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 2
    assert watcher(bench).closed == [(CloseReason.CLIENT_RESET, "")]
    other.sendall(f.heartbeat(5))
    bench.run()
    assert receive(other_broker, len(f.heartbeat(5))) == f.heartbeat(5)


def test_a_muted_client_that_hangs_up_does_not_make_the_hub_spin(bench):
    """A level-triggered set reports a hang-up for ever; so it is closed at once."""
    client, _, session = bench.link()
    session.client.mute(Mute.THROTTLED)
    bench.engine.attend(session)
    bench.event_loop.attend()
    reset(client)
    assert bench.run() < 20
    assert session.reason is CloseReason.CLIENT_RESET
    assert bench.event_loop.open_sockets == 1  # the broker's side, until it closes too


def test_a_broker_that_resets_ends_the_client_gracefully(bench):
    """The client sees an orderly end after the replies it was due."""
    client, broker, _ = bench.link()
    client.sendall(f.heartbeat(1) + f.heartbeat(2))
    bench.run()
    receive(broker, 2 * len(f.heartbeat(1)))
    broker.sendall(f.heartbeat_reply(1))
    bench.run()
    reset(broker)
    bench.run()
    assert receive(client, 1000) == f.heartbeat_reply(1)
    client.close()
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert watcher(bench).closed == [(CloseReason.BROKER_RESET, "")]


def test_a_side_that_never_closes_is_closed_when_its_time_is_up(bench):
    """Lingering has a deadline."""
    client, broker, session = bench.link()
    session.drain()
    bench.engine.attend(session)
    bench.run()
    assert receive(client, 10) == b""
    assert bench.event_loop.open_sockets == 2
    bench.clock.now_ms += LINGER_MS + 1
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert receive(broker, 10) == b""


def test_a_side_that_never_takes_what_is_due_is_closed_when_its_time_is_up(bench):
    """So is flushing."""
    client, broker, session = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    sender = threading.Thread(target=_send, args=(broker, f.reply(1, bytes(12_000_000))))
    sender.start()
    for _ in range(200):
        bench.event_loop.step(0.01)
        if session.client.outbox:
            break
    session.broker_gone(CloseReason.BROKER_CLOSED, bench.clock.now_ms)
    bench.engine.attend(session)
    bench.run()
    assert bench.event_loop.open_sockets >= 1
    bench.clock.now_ms += FLUSH_MS + LINGER_MS + 1
    bench.run()
    sender.join()
    assert bench.event_loop.open_sockets == 0
    assert held(bench) == 0


def _send(sock, data):
    with suppress(OSError):  # the event loop closes it: that is what the test is about
        sock.sendall(data)


def test_a_client_of_odd_frames_has_its_turns_and_others_theirs(bench):
    """Its bytes arrive in order, over several steps; nobody waits for all of them."""
    client, broker, _ = bench.link()
    other, other_broker, _ = bench.link()
    stream = b"".join(f.heartbeat(n, client_id=f"client-{n}") for n in range(2500))
    client.sendall(stream)
    steps = 0
    while not bench.event_loop.step(0.5):
        pass
    other.sendall(f.heartbeat(1))
    while bench.event_loop.step(0.02):
        steps += 1
        if steps == 3:
            other_broker.setblocking(False)
            assert other_broker.recv(100) == f.heartbeat(1)
    assert steps > 3
    assert receive(broker, len(stream)) == stream
    in_flight_bytes = 2500 * EXCHANGE_BYTES  # all of them still, and the newest are not counted yet
    assert in_flight_bytes - UNCOUNTED * EXCHANGE_BYTES <= held(bench) <= in_flight_bytes


def test_closed_links_are_freed_without_collecting(bench):
    """Ends forget each other: connections that come and go leave nothing behind."""
    gc.collect()
    gc.disable()
    try:
        client, broker, session = bench.link()
        gone = weakref.ref(session.queue)
        del session
        client.close()
        broker.close()
        bench.run()
        bench.event_loop.step(0)
        assert bench.event_loop.open_sockets == 0
        assert gone() is None
    finally:
        gc.enable()
