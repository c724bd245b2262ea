"""The event loop under load: events that a step has no time for, and the order of turns.

The clock is the test's: each read and each request takes as long as the test says.
"""

import pytest

from proxy.core.session.channel import Mute
from proxy.shell import event_loop as event_loop_module
from proxy.shell.event_loop import STEP_US
from proxy.shell.loop_limits import CROWD_EVENTS, READ_BYTES
from proxy.shell.side_ending import close
from tests.support.core.memory import small_engine
from tests.support.core.session_state import mute_until
from tests.support.messages import frames as f
from tests.support.shell.sockets import WatchedPoller, arrived, receive_through, reset, slow_down

BEAT = len(f.heartbeat(1))


# -- the tail of a step -------------------------------------------------------------------------


@pytest.mark.usefixtures("one_event_a_step")
def test_events_left_over_by_a_step_are_handled_before_the_next_poll(bench):
    """Each socket has one turn before any has two, independently of the poll set's order."""
    links = [bench.link() for _ in range(5)]
    bench.settle()
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    polls = WatchedPoller(bench).polls
    counts = []
    for _ in range(5):
        assert bench.event_loop.step(0.5) > 0  # the driver must not sleep
        counts.append(sum(bool(arrived(broker)) for _, broker, _ in links))
        for client, _, _ in links:
            client.sendall(f.heartbeat(2))  # every client has more
    assert counts == [1] * 5
    assert polls == [5]
    assert all(session.usage.requests for _, _, session in links)


@pytest.mark.usefixtures("one_event_a_step")
def test_events_left_over_by_a_step_come_first_while_memory_is_short(make_bench):
    """Short reads are bounded too, and no socket is passed over for ever."""
    bench = make_bench(small_engine(64 << 20))
    bench.engine.request_pool.force_allocate(62 << 20)
    assert bench.engine.request_pool.near_limit
    links = [bench.link() for _ in range(5)]
    bench.settle()
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    polls = WatchedPoller(bench).polls
    for _ in range(5):
        assert bench.event_loop.step(0.5) > 0
    assert polls == [5]
    assert [len(arrived(broker)) for _, broker, _ in links] == [BEAT] * 5


@pytest.mark.usefixtures("one_event_a_step")
def test_an_event_of_a_closed_socket_is_not_given_to_a_socket_with_the_same_descriptor(bench):
    """Descriptors are used again; events that were reported for the closed socket are dropped."""
    for _ in range(2):
        bench.link()
    bench.settle()
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
    close(bench.event_loop.endpoints, session.handle, 0)
    for end in tail:
        if end.session is session:
            close(bench.event_loop.endpoints, end, 0)
            close(bench.event_loop.endpoints, end.other, 0)
    _, _, successor = bench.link()
    assert {successor.handle.fd, successor.handle.other.fd} & left
    bench.run()
    assert successor.reason is None
    assert not successor.handle.closed


@pytest.mark.usefixtures("one_event_a_step")
def test_a_channel_that_is_muted_after_the_poll_is_not_read(bench):
    """The event is older than the mute; the request stays in the kernel until the mute ends."""
    links = [bench.link() for _ in range(4)]
    bench.settle()
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.event_loop.step(0.5)
    waiting = [end for end, _ in bench.event_loop._tail]
    assert len(waiting) == 3
    for end in waiting:
        mute_until(end.session, bench.clock() + 500)
    bench.run()
    for end in waiting:
        assert end.session.usage.requests == 0
        assert end.channel.carry == b""
    assert sum(len(arrived(broker)) for _, broker, _ in links) == BEAT
    bench.clock.now_ms += 500
    bench.run()
    assert sum(len(arrived(broker)) for _, broker, _ in links) == 3 * BEAT


def test_a_step_stops_when_its_time_is_over(bench):
    """60 sockets of which each read takes 100 µs: a step takes 2 ms, and the next steps handle the rest."""
    links = [bench.link() for _ in range(60)]
    for _, _, session in links:
        slow_down(bench, session, 100)
    bench.settle()
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    spent = []
    while sum(session.usage.requests for *_, session in links[:1]) < 60:
        begun_us = bench.clock.now_us()
        assert bench.event_loop.step(0.5) > 0
        spent.append(bench.clock.now_us() - begun_us)
    assert max(spent) <= STEP_US + 8 * 100  # it reads the clock after every eighth event
    assert len(spent) >= 3


def test_a_client_that_is_muted_outside_a_step_is_not_read(bench):
    """A session may be muted while the poll set still watches its client for reading."""
    client, broker, session = bench.link()
    bench.settle()
    mute_until(session, bench.clock() + 1000)
    client.sendall(f.heartbeat(1))
    bench.event_loop.step(0.5)
    assert session.client.muted & Mute.THROTTLED
    assert session.client.carry == b""
    assert arrived(broker) == b""


# -- crowds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flows", [CROWD_EVENTS, CROWD_EVENTS + 1])
def test_a_read_is_shorter_while_many_sockets_are_readable(bench, flows):
    """A small request then waits for 64 KiB of each bulk flow, not for 288 KiB."""
    links = [bench.link() for _ in range(flows)]
    bench.settle()
    taken: list[int] = []
    for _, _, session in links:
        receive_through(session.handle, lambda area: taken.append(len(area)))
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    bench.run()
    crowded = flows > CROWD_EVENTS
    most = event_loop_module.CROWD_READ_BYTES if crowded else READ_BYTES
    assert taken == [most] * flows
    links[0][0].sendall(f.heartbeat(2))
    bench.run()
    assert taken[flows:] == [READ_BYTES]
