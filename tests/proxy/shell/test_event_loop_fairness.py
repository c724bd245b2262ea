"""The event loop under load: what a step has no time for, who has the next turn, and what comes before a deadline.

Time is turned by hand: each read and each request costs what the test says it costs.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from policies.api import Reject
from proxy.core.session.channel import Mute
from proxy.shell import event_loop as event_loop_module
from proxy.shell.event_loop import STEP_US
from tests.support import frames as f
from tests.support.memory import small_engine
from tests.support.policies import Recorder
from tests.support.sessions import make_engine
from tests.support.sockets import Bench, WatchedPoller, arrived, receive, reset, slow_down
from wire.errors import ErrorCode

BEAT = len(f.heartbeat(1))


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def one_event_a_step(monkeypatch):
    """A step has time for one event."""
    monkeypatch.setattr(event_loop_module, "STEP_BYTES", 1)
    monkeypatch.setattr(event_loop_module, "SLICE_BYTES", 0)
    monkeypatch.setattr(event_loop_module, "SLICE_EVENTS", 1)


def settled(bench: Bench) -> None:
    """The first step after a while polls twice."""
    bench.event_loop.step(0)


# -- the tail of a step -------------------------------------------------------------------------


@pytest.mark.usefixtures("one_event_a_step")
def test_what_a_step_has_no_time_for_is_handled_before_the_next_poll(bench):
    """Each socket has its turn once before any has two, whatever order the poll set has."""
    links = [bench.link() for _ in range(5)]
    settled(bench)
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    polls = WatchedPoller(bench).polls
    counts = []
    for _ in range(5):
        assert bench.event_loop.step(0.5) > 0  # the driver must not sleep
        counts.append(sum(bool(arrived(broker)) for _, broker, _ in links))
        for client, _, _ in links:
            client.sendall(f.heartbeat(2))  # everybody has more
    assert counts == [1] * 5
    assert polls == [5]
    assert all(session.usage.requests for _, _, session in links)


@pytest.mark.usefixtures("one_event_a_step")
def test_what_a_step_has_no_time_for_comes_first_while_memory_is_short():
    """Reads with care are bounded too, and nobody is passed over for ever."""
    bench = Bench(small_engine(64 << 20))
    try:
        bench.engine.request_pool.force_allocate(62 << 20)
        assert bench.engine.request_pool.near_limit
        links = [bench.link() for _ in range(5)]
        settled(bench)
        for client, _, _ in links:
            client.sendall(f.heartbeat(1))
        polls = WatchedPoller(bench).polls
        for _ in range(5):
            assert bench.event_loop.step(0.5) > 0
        assert polls == [5]
        assert [len(arrived(broker)) for _, broker, _ in links] == [BEAT] * 5
    finally:
        bench.close()


@pytest.mark.usefixtures("one_event_a_step")
def test_an_event_of_a_closed_socket_is_not_its_successors(bench):
    """Descriptors are used again: what was reported of the one before is forgotten."""
    for _ in range(2):
        bench.link()
    settled(bench)
    (busy, _, _), (gone, gone_broker, session) = (bench.link() for _ in range(2))
    busy.sendall(f.heartbeat(1))
    reset(gone)
    reset(gone_broker)
    polls = WatchedPoller(bench).polls
    while not (polls and polls[-1]):
        bench.event_loop.step(0.5)
    tail = [end for end, _ in bench.event_loop._tail]
    assert tail
    left = {end.fd for end in tail if end.session is session}
    assert left
    bench.event_loop._close(session.handle, 0)
    for end in tail:
        if end.session is session:
            bench.event_loop._close(end, 0)
            bench.event_loop._close(end.other, 0)
    _, _, successor = bench.link()
    assert {successor.handle.fd, successor.handle.other.fd} & left
    bench.run()
    assert successor.reason is None
    assert not successor.handle.closed


@pytest.mark.usefixtures("one_event_a_step")
def test_a_channel_that_was_muted_meanwhile_is_not_read(bench):
    """The event is older than the mute; what has come waits in the kernel until the mute is over."""
    links = [bench.link() for _ in range(4)]
    settled(bench)
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.event_loop.step(0.5)
    waiting = [end for end, _ in bench.event_loop._tail]
    assert len(waiting) == 3
    for end in waiting:
        end.session.mute_until(bench.clock() + 500)
    bench.run()
    for end in waiting:
        assert end.session.usage.requests == 0
        assert end.channel.carry == b""
    assert sum(len(arrived(broker)) for _, broker, _ in links) == BEAT
    bench.clock.now_ms += 500
    bench.run()
    assert sum(len(arrived(broker)) for _, broker, _ in links) == 3 * BEAT


def test_a_step_looks_at_the_clock_and_stops_when_its_time_is_over(bench):
    """64 sockets of which each read takes 100 us: 2 ms a step, and the rest in the next ones."""
    links = [bench.link() for _ in range(60)]
    for _, _, session in links:
        slow_down(bench, session, 100)
    settled(bench)
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    spent = []
    while sum(session.usage.requests for *_, session in links[:1]) < 60:
        begun_us = bench.clock.now_us()
        assert bench.event_loop.step(0.5) > 0
        spent.append(bench.clock.now_us() - begun_us)
    assert max(spent) <= STEP_US + 8 * 100  # it looks after every eighth event
    assert len(spent) >= 3


def test_a_muted_client_is_not_read_behind_a_full_queue_of_turns(bench):
    """Sessions that wait for a turn may be muted without the poll set's knowledge: they are not read."""
    client, broker, session = bench.link()
    settled(bench)
    session.mute_until(bench.clock() + 1000)
    client.sendall(f.heartbeat(1))
    bench.event_loop.step(0.5)
    assert session.client.muted & Mute.THROTTLED
    assert session.client.carry == b""
    assert arrived(broker) == b""


# -- turns --------------------------------------------------------------------------------------


def test_no_step_is_longer_than_its_time_however_many_sessions_want_a_turn():
    """300 clients with 60 kB of refused requests each, 50 us a request: 5 ms at most, and others get through."""
    cost_us = 50

    def refuse(_):
        bench.clock.spend(cost_us)
        return Reject(ErrorCode.POLICY_VIOLATION)

    bench = Bench(make_engine([Recorder(refuse, apis={f.HEARTBEAT})]))
    try:
        links = [bench.link() for _ in range(300)]
        honest, honest_broker, session = bench.link()
        flood = b"".join(f.heartbeat(n) for n in range(60_000 // BEAT))
        for client, _, _ in links:
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send(flood)
        settled(bench)
        longest_us = answered = 0
        policy = bench.engine.chain.entries[0].policy
        for number in range(450):
            if number == 100:
                honest.sendall(f.produce(1))
            begun_us = bench.clock.now_us()
            assert bench.event_loop.step(0) > 0
            longest_us = max(longest_us, bench.clock.now_us() - begun_us)
            if not answered and session.queue:
                answered = number
        assert longest_us <= 2 * STEP_US + 1_000
        assert receive(honest_broker, len(f.produce(1))) == f.produce(1)
        assert 0 < answered - 100 <= 330  # behind those that had waited, and no longer
        asked = len(policy.asked)
        assert asked * cost_us >= 0.3 * 450 * STEP_US  # and it did work
    finally:
        bench.close()


def test_sessions_that_wait_have_their_turns_in_order_and_each_as_often():
    """First come, first served, over several steps; sockets are read in between."""
    bench = Bench()
    try:
        order: list[int] = []
        links = [bench.link() for _ in range(12)]
        stream = b"".join(f.heartbeat(n, client_id=f"client-{n}") for n in range(600))
        for place, (client, _, session) in enumerate(links):
            take = session.handle.take

            def count(buf, start, end, now_ms, place=place, take=take):
                order.append(place)
                bench.clock.spend(900)
                return take(buf, start, end, now_ms)

            session.handle.take = count
            client.sendall(stream)
        bench.run()
        last = max(order.index(place) for place in range(12))  # by then all have been read
        rounds = [order[at : at + 12] for at in range(last, last + 5 * 12, 12)]
        assert all(sorted(each) == list(range(12)) for each in rounds)
        for _, broker, _ in links:
            assert receive(broker, len(stream)) == stream
    finally:
        bench.close()


def test_a_session_is_ready_once_however_often_it_is_called(bench):
    """So the queue is never longer than there are sessions."""
    _, _, session = bench.link()
    for _ in range(100):
        bench.engine.attend(session)
    assert len(bench.engine.ready) == 1
    bench.run()
    assert not bench.engine.ready
    bench.engine.attend(session)
    assert len(bench.engine.ready) == 1


# -- crowds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flows", [event_loop_module.CROWD_EVENTS, event_loop_module.CROWD_EVENTS + 1]
)
def test_a_read_takes_less_of_each_while_many_have_something(bench, flows):
    """So that a small request waits for 64 KiB of each bulk flow and not for 256."""
    links = [bench.link() for _ in range(flows)]
    settled(bench)
    taken: list[int] = []
    for _, _, session in links:

        def receive_into(area, recv_into=session.handle.recv_into):
            taken.append(len(area))
            return recv_into(area)

        session.handle.recv_into = receive_into
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.run()
    crowded = flows > event_loop_module.CROWD_EVENTS
    most = event_loop_module.CROWD_READ_BYTES if crowded else event_loop_module.READ_BYTES
    assert taken == [most] * flows
    links[0][0].sendall(f.heartbeat(2))
    bench.run()
    assert taken[flows:] == [event_loop_module.READ_BYTES]
