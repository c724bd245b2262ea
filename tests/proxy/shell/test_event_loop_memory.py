"""The event loop when memory is short: clients that wait, that are read in small parts, that are closed."""

import socket
import threading

from policies.api import FORWARD, Hold
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import SHARE_CHECK_MS, ReadLimits
from proxy.core.session.channel import Mute
from proxy.shell import event_loop as event_loop_module
from proxy.shell.loop_limits import READ_BYTES
from proxy.shell.side_ending import LINGER_MS
from tests.support.core.memory import Keeper, kept, small_engine
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, pour, receive, reset, start_sending

POOL = 1 << 20
LARGE = 1 << 20


def waits(session) -> bool:
    return bool(session.client.muted & Mute.OUT_OF_MEMORY)


def send_all(client: socket.socket, data: bytes, bench: Bench) -> None:
    """Send all of the data while the event loop steps."""
    bench.join(start_sending(client, data))
    bench.run()


def test_a_client_that_cannot_reserve_memory_is_not_read_until_memory_is_free(make_bench):
    """Five clients wait without making the event loop spin; all their requests are forwarded in the end."""
    bench = make_bench(small_engine(POOL))
    bench.engine.request_pool.force_allocate(POOL)
    others = [bench.link() for _ in range(5)]
    for client, _, _ in others:
        client.sendall(kept(2, 5000) + kept(3, 70))
        assert bench.run() < 20
    assert all(waits(session) for _, _, session in others)
    assert bench.engine.request_pool.is_depleted
    assert len(bench.engine.reservations) == 5
    bench.engine.request_pool.release(POOL)
    bench.run()
    for _, broker, session in others:
        assert receive(broker, 5070) == kept(2, 5000) + kept(3, 70)
        assert not waits(session)
    assert bench.engine.request_pool.used_bytes == 0
    assert not bench.engine.request_pool.is_depleted


def test_released_memory_is_given_to_a_waiting_client_at_once(make_bench):
    """The waiting client is read without a timer and without an event of its own socket."""
    verdict = Hold(60_000, "key")
    bench = make_bench(small_engine(POOL, Keeper(lambda _: verdict)))
    first, first_broker, _ = bench.link()
    send_all(first, kept(1, LARGE), bench)
    second, second_broker, session = bench.link()
    second.sendall(kept(7, 200_000))
    bench.run()
    assert waits(session)
    verdict = FORWARD
    bench.engine.wake("key")
    bench.receive(first_broker, LARGE)
    bench.run()
    assert bench.receive(second_broker, 200_000) == kept(7, 200_000)


def test_all_of_many_clients_with_requests_of_the_pools_size_are_served(make_bench):
    """Twelve clients begin at the same time, and send three requests each; one at a time exceeds the pool."""
    bench = make_bench(small_engine(POOL))
    links = [bench.link() for _ in range(12)]
    done: list[int] = []
    asked = [kept(number, LARGE) for number in range(len(links))]
    for (client, _, _), request in zip(links, asked, strict=True):
        client.sendall(request[:1000])
    bench.run()
    assert not any(waits(session) for _, _, session in links)  # each has what it has sent

    def send_three_times(number: int) -> None:
        client, broker, _ = links[number]
        client.sendall(asked[number][1000:])
        for turn in range(3):
            if turn:
                client.sendall(asked[number])
            receive(broker, LARGE)
            done.append(number)

    senders = [threading.Thread(target=send_three_times, args=(n,)) for n in range(len(links))]
    for sender in senders:
        sender.start()
    for sender in senders:
        bench.join(sender)
    assert sorted(done) == sorted(3 * list(range(len(links))))
    assert bench.engine.request_pool.peak_bytes < 2 * POOL + len(links) * (8 << 10)
    assert bench.engine.request_pool.used_bytes == 0


def test_a_client_that_hangs_up_while_it_waits_leaves_the_queue(make_bench):
    """Its socket is watched for an end, although it is not read."""
    bench = make_bench(small_engine(POOL))
    bench.engine.request_pool.force_allocate(POOL)
    closing, _, closed = bench.link()
    breaking, _, broken = bench.link()
    for client in (closing, breaking):
        client.sendall(kept(2, 100)[:50])
    bench.run()
    assert waits(closed)
    assert waits(broken)
    reset(breaking)
    closing.shutdown(socket.SHUT_WR)
    assert bench.run() < 20
    assert broken.reason is CloseReason.CLIENT_RESET
    bench.engine.request_pool.release(POOL)
    assert bench.run() < 50
    assert closed.ending
    assert len(bench.engine.reservations) == 0
    assert bench.engine.request_pool.used_bytes == 0


def test_a_streamed_request_is_read_in_parts_while_memory_is_short(make_bench):
    """A broker that does not read costs a sixteenth of the pool at most; all bytes arrive in the end."""
    bench = make_bench(small_engine(160_000))
    client, broker, session = bench.link()
    stream = b"".join(f.produce(n, size_bytes=500_000) for n in range(20))
    sender = start_sending(client, stream)
    bench.step_until(lambda: session.client.muted & Mute.BACKPRESSURE)
    assert 0 < bench.engine.request_pool.used_bytes <= 160_000 // 16
    assert bench.receive(broker, len(stream)) == stream
    sender.join()
    assert bench.engine.request_pool.peak_bytes <= 160_000


def test_many_brokers_that_do_not_read_stay_within_the_pool(make_bench):
    """A client inside a frame exceeds the pool by 8 KiB at most; a client at a frame's start is not read."""
    bench = make_bench(small_engine(60_000))
    links = [bench.link() for _ in range(12)]
    data = b"".join(f.produce(n, size_bytes=300_000) for n in range(30))
    pour(bench, [(client, data, session.client) for client, _, session in links])
    pool = bench.engine.request_pool
    assert all(session.client.muted for _, _, session in links)
    assert pool.peak_bytes <= 60_000 + 12 * (8 << 10)


def test_the_more_clients_do_not_read_the_less_memory_each_costs(make_bench):
    """The first ones cost a whole read, the next a quarter of it, and 8 KiB each once the pool is used up."""
    bench = make_bench(make_engine(pool_limits=PoolLimits(response_bytes=8 << 20)))
    links = [bench.link() for _ in range(60)]
    reply = f.reply(1, bytes(16 << 20))
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.run()
    pour(bench, [(broker, reply, session.broker) for _, broker, session in links])
    unsent = sorted(session.client.unsent_bytes for _, _, session in links)
    assert unsent[0] > 0
    assert unsent[30] <= 64 << 10
    assert unsent[-1] <= READ_BYTES
    large = sum(each for each in unsent if each > 64 << 10)
    most = (
        (2 << 20) + (1 << 20) + READ_BYTES
    )  # the bytes kept before reads get smaller, and one step
    assert large <= most
    held = sum(s.client.unsent_bytes + s.client.head_at for _, _, s in links)
    assert bench.engine.reply_pool.used_bytes == held


def test_clients_that_do_not_read_metadata_stay_within_the_pool_of_replies(make_bench):
    """Addresses are rewritten while a reply of 8 MiB streams, so forty of them are never kept whole."""
    bench = make_bench(make_engine(pool_limits=PoolLimits(response_bytes=8 << 20)))
    links = [bench.link() for _ in range(40)]
    brokers = [(1, "kafka-1.real", 9092)]
    body = f.metadata_reply(1, brokers)[8:-4] + bytes(8 << 20)
    reply = f.reply(1, body)
    for client, _, _ in links:
        client.sendall(f.metadata_request(1))
    bench.run()
    pour(bench, [(broker, reply, session.broker) for _, broker, session in links])
    pool = bench.engine.reply_pool
    assert not any(session.ended for _, _, session in links)
    assert 0 < pool.peak_bytes <= (8 << 20) + 40 * (8 << 10)
    held = sum(s.client.unsent_bytes + s.client.head_at for _, _, s in links)
    assert pool.used_bytes == held


def test_announced_bytes_count_until_the_brokers_connection_is_closed(make_bench):
    """A client resets inside a request: the next client waits until the broker's connection is closed too."""
    bench = make_bench(make_engine(pool_limits=PoolLimits(announced_bytes=1 << 20)))
    asked = f.produce(1, acks=1, size_bytes=18 << 20)
    going, _, gone = bench.link()
    going.sendall(asked[:40_000])
    bench.run()
    staying, broker, waiting = bench.link()
    staying.sendall(asked[:40_000])
    bench.run()
    assert waits(waiting)
    reset(going)
    bench.run()
    bench.clock.now_ms += LINGER_MS
    bench.run()
    assert gone.ended
    assert not waits(waiting)
    assert receive(broker, 40_000) == asked[:40_000]
    assert bench.engine.announced.bytes_of(None) == len(asked)
    bench.close()
    assert bench.engine.announced.bytes_of(None) == 0


def test_replies_pass_while_requests_wait(make_bench):
    """Replies have a pool of their own, so they never wait for memory of requests."""
    bench = make_bench(small_engine(POOL))
    asking, asking_broker, _ = bench.link()
    asking.sendall(f.heartbeat(1))
    bench.run()
    bench.engine.request_pool.force_allocate(POOL)
    waiting, _, session = bench.link()
    waiting.sendall(kept(1, 5000))
    bench.run()
    assert waits(session)
    asking_broker.sendall(f.heartbeat_reply(1))
    bench.run()
    assert receive(asking, 10) == f.heartbeat_reply(1)


def test_a_slow_sender_is_closed_and_its_memory_is_given_to_a_waiting_client(make_bench):
    """A slowloris connection ends in order, with REQUEST_READ_TIMEOUT as its reason."""
    limits = ReadLimits()
    bench = make_bench(small_engine(POOL, limits=limits))
    bench.engine.request_pool.force_allocate(POOL // 2)
    slow, slow_broker, session = bench.link()
    slow.sendall(kept(1, LARGE)[:200_000])  # it may exceed its part
    bench.run()
    bench.clock.now_ms += limits.timeout_ms
    bench.run()
    assert not session.ended
    honest, honest_broker, waiting = bench.link()
    honest.sendall(kept(2, 150_000))
    bench.run()
    assert waits(waiting)
    for _ in range(2):
        bench.clock.now_ms += SHARE_CHECK_MS
        bench.run()
    assert bench.receive(honest_broker, 150_000) == kept(2, 150_000)
    assert "while others need its memory" in session.detail
    bench.engine.request_pool.release(POOL // 2)
    assert session.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert slow.recv(10) == b""
    bench.clock.now_ms += LINGER_MS
    bench.run()
    assert slow_broker.recv(10) == b""
    assert bench.event_loop.open_sockets == 2
    assert bench.engine.request_pool.used_bytes == 0


def test_of_two_waiting_clients_only_the_one_that_stopped_sending_is_closed(make_bench):
    """Both wait for the same memory; the bytes in their sockets tell them apart."""
    bench = make_bench(small_engine(POOL, limits=ReadLimits()))
    bench.engine.request_pool.force_allocate(POOL)
    idle, _, closed = bench.link()
    idle.sendall(kept(2, LARGE)[:128])
    honest, _, patient = bench.link()
    honest.sendall(kept(3, LARGE)[: 16 << 10])
    bench.run()
    assert waits(closed)
    assert waits(patient)
    for _ in range(20):
        bench.clock.now_ms += 1000
        bench.run()
    assert closed.reason is CloseReason.REQUEST_READ_TIMEOUT
    assert idle.recv(10) == b""
    assert waits(patient)


def test_events_are_shuffled_while_memory_is_short(make_bench, monkeypatch):
    """The event loop asks for a fair order in each step near the pool's limit, and in no other."""
    asked: list[int] = []

    def in_fair_order(events, pool):
        asked.append(len(events))
        return list(reversed(events))

    monkeypatch.setattr(event_loop_module, "in_fair_order", in_fair_order)
    bench = make_bench(small_engine(64 << 20))
    links = [bench.link() for _ in range(4)]
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.run()
    assert asked == []
    bench.engine.request_pool.force_allocate(60 << 20)
    for client, _, _ in links:
        client.sendall(f.heartbeat(2))
    bench.run()
    assert asked[0] == 4
    for _, broker, _ in links:
        assert receive(broker, 2 * len(f.heartbeat(1))) == f.heartbeat(1) + f.heartbeat(2)


def test_reads_are_short_from_the_moment_that_memory_is_short(make_bench):
    """A reservation in the middle of a step shortens the reads of the rest of that step."""
    bench = make_bench(small_engine(64 << 20))
    pool = bench.engine.request_pool
    pool.force_allocate((64 << 20) - (7 << 20))
    links = [bench.link() for _ in range(30)]
    for client, _, _ in links:
        client.sendall(kept(1, 1 << 20)[:200_000])
    for _ in range(200):
        bench.event_loop.step(0.001)
    assert pool.peak_bytes <= 64 << 20
    assert sum(waits(session) for _, _, session in links) > 0
