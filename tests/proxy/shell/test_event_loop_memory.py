"""The event loop when memory is short, over real sockets: who waits, who is read a little, who is closed."""

from __future__ import annotations

import socket
import threading

import pytest

from policies.api import FORWARD, Hold
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import HASTY_MS, ReadLimits
from proxy.core.session.channel import Mute
from proxy.shell import event_loop as event_loop_module
from proxy.shell.event_loop import LINGER_MS
from tests.support import frames as f
from tests.support.memory import Keeper, kept, small_engine
from tests.support.sessions import make_engine
from tests.support.sockets import Bench, pour, receive, reset

POOL = 1 << 20
LARGE = 1 << 20


@pytest.fixture
def make_bench():
    """An event loop with this pool of requests and these policies."""
    made: list[Bench] = []

    def make(*policies, pool=POOL, **options) -> Bench:
        made.append(Bench(small_engine(pool, *policies, **options)))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def waits(session) -> bool:
    return bool(session.client.muted & Mute.OUT_OF_MEMORY)


def send_all(client: socket.socket, data: bytes, bench: Bench) -> None:
    """Send while the event loop steps."""
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    while sender.is_alive():
        bench.event_loop.step(0.01)
    sender.join()
    bench.run()


def test_who_finds_no_memory_is_not_read_and_goes_on_when_there_is_some(make_bench):
    """Nothing is lost, nobody spins, and the first to come is the first to go on."""
    bench = make_bench()
    holder, holder_broker, _ = bench.link()
    holder.sendall(kept(1, LARGE)[:100])
    bench.run()
    others = [bench.link() for _ in range(5)]
    for client, _, _ in others:
        client.sendall(kept(2, 5000) + kept(3, 70))
        assert bench.run() < 20
    assert all(waits(session) for _, _, session in others)
    assert bench.engine.request_pool.is_depleted
    assert len(bench.engine.reservations) == 5
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(holder_broker, LARGE)))
    reader.start()
    send_all(holder, kept(1, LARGE)[100:], bench)
    while reader.is_alive():
        bench.event_loop.step(0.01)
    bench.run()
    assert bytes(got) == kept(1, LARGE)
    for _, broker, session in others:
        assert receive(broker, 5070) == kept(2, 5000) + kept(3, 70)
        assert not waits(session)
    assert bench.engine.request_pool.used_bytes == 0
    assert not bench.engine.request_pool.is_depleted


def test_a_freed_byte_is_known_at_once(make_bench):
    """In the same step, without a timer or an event of the one that waits."""
    bench = make_bench(Keeper(lambda _: Hold(60_000, "key") if not bench_free else FORWARD))
    bench_free: list[int] = []
    first, first_broker, _ = bench.link()
    send_all(first, kept(1, LARGE), bench)
    second, second_broker, session = bench.link()
    second.sendall(kept(7))
    bench.run()
    assert waits(session)
    bench_free.append(1)
    reader = threading.Thread(target=receive, args=(first_broker, LARGE))
    reader.start()
    bench.engine.wake("key")
    while reader.is_alive():
        bench.event_loop.step(0.01)
    bench.run()
    assert receive(second_broker, len(kept(7))) == kept(7)


def test_everybody_has_one_request_done_before_anybody_has_two(make_bench):
    """Many have sent one that needs the whole pool, and send the next at once: none is passed."""
    bench = make_bench()
    links = [bench.link() for _ in range(12)]
    senders = []
    done: list[int] = []

    asked = [kept(number, LARGE) for number in range(len(links))]
    for (client, _, _), request in zip(links, asked, strict=True):
        client.sendall(request[:1000])  # all stand in the line, however late a thread comes

    def ask_again_and_again(number: int) -> None:
        client, broker, _ = links[number]
        client.sendall(asked[number][1000:])
        for turn in range(3):
            if turn:
                client.sendall(asked[number])
            receive(broker, LARGE)
            done.append(number)

    senders = [threading.Thread(target=ask_again_and_again, args=(n,)) for n in range(len(links))]
    for sender in senders:
        sender.start()
    while any(sender.is_alive() for sender in senders):
        bench.event_loop.step(0.01)
    counts = [0] * len(links)
    for number in done:
        counts[number] += 1
        assert max(counts) - min(counts) <= 2  # those that came together come again together
    assert bench.engine.request_pool.used_bytes == 0


def test_a_client_that_waits_and_hangs_up_gives_its_place_back(make_bench):
    """It is watched, though it is not read."""
    bench = make_bench()
    holder, _, _ = bench.link()
    holder.sendall(kept(1, LARGE)[:100])
    bench.run()
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
    reset(holder)
    assert bench.run() < 50
    assert closed.ending
    assert len(bench.engine.reservations) == 0
    assert bench.engine.request_pool.used_bytes == 0


def test_what_streams_is_read_in_parts_while_memory_is_short(make_bench):
    """A broker that does not read costs what was left, not a whole read; it arrives all the same."""
    bench = make_bench(pool=160_000)
    client, broker, session = bench.link()
    stream = b"".join(f.produce(n, size_bytes=500_000) for n in range(20))
    sender = threading.Thread(target=client.sendall, args=(stream,))
    sender.start()
    for _ in range(500):
        bench.event_loop.step(0.01)
        if session.client.muted & Mute.BACKPRESSURE:
            break
    assert session.client.muted & Mute.BACKPRESSURE
    assert 0 < bench.engine.request_pool.used_bytes <= 160_000 // 16
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(broker, len(stream))))
    reader.start()
    while reader.is_alive():
        bench.event_loop.step(0.01)
    sender.join()
    assert bytes(got) == stream
    assert bench.engine.request_pool.peak_bytes <= 160_000


def test_many_brokers_that_do_not_read_stay_within_the_pool(make_bench):
    """Whoever is inside a frame costs a crumb more; whoever comes then is not read at all."""
    bench = make_bench(pool=60_000)
    links = [bench.link() for _ in range(12)]
    data = b"".join(f.produce(n, size_bytes=300_000) for n in range(30))
    pour(bench, [(client, data, session.client) for client, _, session in links])
    pool = bench.engine.request_pool
    assert all(session.client.muted for _, _, session in links)
    assert pool.peak_bytes <= 60_000 + 12 * (8 << 10)


def test_clients_that_never_read_cost_less_and_less():
    """The first few a whole read, the others a quarter of it, and crumbs when their pool is used up."""
    bounds = PoolLimits(response_bytes=8 << 20)
    bench = Bench(make_engine(bounds=bounds))
    try:
        links = [bench.link() for _ in range(60)]
        reply = f.reply(1, bytes(16 << 20))
        for client, _, _ in links:
            client.sendall(f.heartbeat(1))
        bench.run()
        pour(bench, [(broker, reply, session.broker) for _, broker, session in links])
        unsent = sorted(session.client.unsent_bytes for _, _, session in links)
        assert unsent[0] > 0
        assert unsent[30] <= 64 << 10
        assert unsent[-1] <= 256 << 10
        large = sum(each for each in unsent if each > 64 << 10)
        assert large <= (2 << 20) + (
            5 << 18
        )  # what may be kept before reads get smaller, and a step
        held = sum(s.client.unsent_bytes + s.client.head_at for _, _, s in links)
        assert bench.engine.reply_pool.used_bytes == held
    finally:
        bench.close()


def test_clients_that_never_read_metadata_cost_no_more_than_others():
    """Forty clients with 8 MiB each: the addresses are rewritten as it streams, so the pool of replies holds."""
    bench = Bench(make_engine(bounds=PoolLimits(response_bytes=8 << 20)))
    try:
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
    finally:
        bench.close()


def test_what_is_announced_counts_until_the_broker_is_told_that_it_will_not_come():
    """A client that goes in the middle gives its place to the next one as soon as the broker's connection is closed."""
    bench = Bench(make_engine(bounds=PoolLimits(announced_bytes=1 << 20)))
    try:
        asked = f.produce(1, acks=1, size_bytes=1 << 20)
        going, _, gone = bench.link()
        going.sendall(asked[:5000])
        bench.run()
        staying, broker, waiting = bench.link()
        staying.sendall(asked[:5000])
        bench.run()
        assert waits(waiting)
        reset(going)
        bench.run()
        bench.clock.now_ms += LINGER_MS
        bench.run()
        assert gone.ended
        assert not waits(waiting)
        assert receive(broker, 5000) == asked[:5000]
        assert bench.engine.announced.bytes_of(None) == len(asked)
    finally:
        bench.close()
    assert bench.engine.announced.bytes_of(None) == 0


def test_replies_pass_while_requests_wait(make_bench):
    """They have a pool of their own, so whoever waits is not waited for."""
    bench = make_bench()
    asking, asking_broker, _ = bench.link()
    asking.sendall(f.heartbeat(1))
    bench.run()
    holder, _, _ = bench.link()
    holder.sendall(kept(1, LARGE)[:100])
    bench.run()
    assert bench.engine.request_pool.is_out_of_memory()
    asking_broker.sendall(f.heartbeat_reply(1))
    bench.run()
    assert receive(asking, 10) == f.heartbeat_reply(1)


def test_a_slow_sender_is_closed_and_its_memory_is_somebody_elses():
    """Slowloris: its connection ends in order, with a reason of its own."""
    bench = Bench(small_engine(POOL, limits=ReadLimits()))
    try:
        slow, slow_broker, session = bench.link()
        slow.sendall(kept(1, LARGE)[:100])
        bench.run()
        honest, honest_broker, waiting = bench.link()
        honest.sendall(kept(2, 100))
        bench.run()
        assert waits(waiting)
        slow.sendall(b"\x00")
        bench.clock.now_ms += HASTY_MS  # it has more than its share, and somebody waits
        bench.run()
        assert receive(honest_broker, 100) == kept(2, 100)
        assert session.reason is CloseReason.REQUEST_READ_TIMEOUT
        assert slow.recv(10) == b""
        bench.clock.now_ms += LINGER_MS
        bench.run()
        assert slow_broker.recv(10) == b""
        assert bench.event_loop.open_sockets == 2
        assert bench.engine.request_pool.used_bytes == 0
    finally:
        bench.close()


def test_who_waits_with_nothing_to_send_is_closed_and_who_has_something_waits():
    """Both wait for the same memory; what stands in the kernel tells them apart."""
    bench = Bench(small_engine(POOL, limits=ReadLimits()))
    try:
        holder, _, held = bench.link()
        holder.sendall(kept(1, LARGE)[: 64 << 10])
        bench.run()
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
        assert not held.ended
        assert waits(patient)
    finally:
        bench.close()


def test_while_little_is_left_the_order_is_not_the_poll_sets(make_bench, monkeypatch):
    """The event loop asks for a fair order in each careful step, and in no other."""
    asked: list[int] = []

    def in_fair_order(events, pool):
        asked.append(len(events))
        return list(reversed(events))

    monkeypatch.setattr(event_loop_module, "in_fair_order", in_fair_order)
    bench = make_bench(pool=64 << 20)
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


def test_a_step_reads_with_care_as_soon_as_memory_is_short(make_bench):
    """A reservation in the middle of a step is felt by the rest of it."""
    bench = make_bench(pool=64 << 20)
    links = [bench.link() for _ in range(6)]
    for client, _, _ in links:
        client.sendall(kept(1, 60 << 20)[:200_000])
    for _ in range(50):
        bench.event_loop.step(0.001)
    assert bench.engine.request_pool.used_bytes <= (64 << 20) + (60 << 20) - 1
    assert sum(bool(session.reserved_bytes) for _, _, session in links) == 2
    assert sum(waits(session) for _, _, session in links) == 4
