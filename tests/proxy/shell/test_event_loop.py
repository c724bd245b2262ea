"""The event loop between real sockets, stepped by hand: what moves, what waits, and how sides end."""

import gc
import socket
import weakref

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.in_flight import OBSERVED_BYTES, UNCOUNTED
from proxy.shell.loop_limits import READ_BYTES
from proxy.shell.side_ending import FLUSH_MS, LINGER_MS
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive, reset, start_sending


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
    sender = start_sending(client, stream)
    bench.step_until(lambda: session.client.muted & Mute.BACKPRESSURE)
    assert 0 < bench.held_bytes <= READ_BYTES
    assert bench.receive(broker, len(stream)) == stream
    sender.join()
    assert bench.held_bytes == 0
    assert not session.client.muted


def test_a_client_that_does_not_read_stops_its_broker(bench):
    """The broker is muted until the client reads; other links are not affected."""
    client, broker, session = bench.link()
    other_client, other_broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    big = f.reply(1, bytes(12_000_000))
    sender = start_sending(broker, big)
    bench.step_until(lambda: session.broker.muted & Mute.BACKPRESSURE)
    other_client.sendall(f.heartbeat(9))
    bench.run()
    assert receive(other_broker, len(f.heartbeat(9))) == f.heartbeat(9)
    assert bench.receive(client, len(big)) == big
    sender.join()


def test_a_half_closed_client_gets_its_reply_and_then_both_sides_end(bench):
    """The reply is delivered first; both connections are closed after it."""
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
    assert bench.engine.observer.closed == [(CloseReason.CLIENT_CLOSED, "")]


def test_closing_never_cuts_off_replies_that_are_due(bench):
    """The client has pipelined requests that are never read: a plain close would send a reset and lose its replies."""
    client, broker, session = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    receive(broker, len(f.heartbeat(1)))
    big = f.reply(1, bytes(24_000_000))  # more than the buffers of the kernel take
    sender = start_sending(broker, big)
    bench.step_until(lambda: session.client.outbox)
    client.sendall(b"".join(f.heartbeat(n) for n in range(2, 50)))  # Sluice never reads these
    session.drain()
    bench.engine.ask_for_turn(session)
    assert bench.receive(client, len(big) + 1) == big
    sender.join()
    client.close()
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 0


def test_a_client_that_resets_ends_its_own_link_only(bench):
    """Its broker connection is closed too; other links work."""
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
    assert bench.engine.observer.closed == [(CloseReason.CLIENT_RESET, "")]
    other.sendall(f.heartbeat(5))
    bench.run()
    assert receive(other_broker, len(f.heartbeat(5))) == f.heartbeat(5)


def test_a_muted_client_that_hangs_up_does_not_make_the_event_loop_spin(bench):
    """A level-triggered poll set reports a hang-up for ever, so the connection is closed at once."""
    client, _, session = bench.link()
    session.client.mute(Mute.THROTTLED)
    bench.engine.ask_for_turn(session)
    bench.event_loop.serve_ready()
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
    assert bench.engine.observer.closed == [(CloseReason.BROKER_RESET, "")]


@pytest.mark.parametrize("last", [f.heartbeat(2), f.produce(2, acks=0)])
def test_a_client_that_leaves_when_nothing_is_due_ends_both_sides_at_once(bench, last):
    """No side waits for the other's end. The broker gets every byte, and an end of stream instead of a reset."""
    client, broker, _ = bench.link()
    client.sendall(f.heartbeat(1) + last)
    bench.run()
    replies = f.heartbeat_reply(1) + (f.heartbeat_reply(2) if last == f.heartbeat(2) else b"")
    broker.sendall(replies)
    bench.run()
    assert receive(client, len(replies)) == replies
    client.shutdown(socket.SHUT_WR)
    bench.step_until(lambda: bench.engine.observer.closed)
    assert bench.event_loop.open_sockets == 0
    assert bench.engine.timers.size == 0
    assert receive(client, 10) == b""
    assert receive(broker, 1000) == f.heartbeat(1) + last
    assert bench.engine.observer.closed == [(CloseReason.CLIENT_CLOSED, "")]


def test_a_client_that_has_ended_its_stream_gets_its_replies_and_is_closed_after_the_last(bench):
    """The side of the broker lingers no longer than the client's: it owes nothing then."""
    client, broker, _ = bench.link()
    client.sendall(f.heartbeat(1))
    client.shutdown(socket.SHUT_WR)
    bench.run()
    assert bench.event_loop.open_sockets == 2
    broker.sendall(f.heartbeat_reply(1))
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert receive(client, 1000) == f.heartbeat_reply(1)


def test_a_side_that_never_closes_or_reads_is_closed_when_its_time_is_up(bench):
    """A side that lingers has LINGER_MS to close its end, one that is flushed FLUSH_MS to take its bytes."""
    client, broker, session = bench.link()
    session.drain()
    bench.engine.ask_for_turn(session)
    bench.run()
    assert receive(client, 10) == b""
    assert bench.event_loop.open_sockets == 1  # the client's side: the broker owed nothing
    bench.clock.now_ms += LINGER_MS + 1
    bench.run()
    assert bench.event_loop.open_sockets == 0
    assert receive(broker, 10) == b""

    client, broker, session = bench.link()
    client.sendall(f.heartbeat(1))
    bench.run()
    sender = start_sending(broker, f.reply(1, bytes(12_000_000)))
    bench.step_until(lambda: session.client.outbox)
    session.broker_gone(CloseReason.BROKER_CLOSED, bench.clock.now_ms)
    bench.engine.ask_for_turn(session)
    bench.run()
    assert bench.event_loop.open_sockets >= 1
    bench.clock.now_ms += FLUSH_MS + LINGER_MS + 1
    bench.run()
    sender.join()
    assert bench.event_loop.open_sockets == 0
    assert bench.held_bytes == 0


def test_a_client_on_the_general_path_does_not_delay_others(bench):
    """2,500 requests with new client ids are spread over several steps; another client is served in between."""
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
    in_flight_bytes = 2500 * OBSERVED_BYTES  # all of them still, and the newest are not counted yet
    assert in_flight_bytes - UNCOUNTED * OBSERVED_BYTES <= bench.held_bytes <= in_flight_bytes


def test_closed_links_are_freed_without_the_garbage_collector(bench):
    """The two endpoints of a closed link drop their references to each other."""
    gc.collect()
    gc.disable()
    try:
        client, broker, session = bench.link()
        session.queue.deepen()  # a deque takes weak references
        gone = weakref.ref(session.queue.entries)
        del session
        client.close()
        broker.close()
        bench.run()
        bench.event_loop.step(0)
        assert bench.event_loop.open_sockets == 0
        assert gone() is None
    finally:
        gc.enable()
