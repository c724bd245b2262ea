"""The order of a step: sockets before deadlines, Sluice's own requests before the client's next frame."""

from contextlib import suppress

import pytest

from proxy.core.session.questions import inquire
from proxy.shell import event_loop as event_loop_module
from proxy.shell.loop_limits import STEP_EVENTS
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch
from tests.support.shell.sockets import WatchedPoller, arrived, receive_through, slow_down

BEAT = len(f.heartbeat(1))
EMPTY_FETCH_MS = 60_000
"""Longer than the deadline of any fetch in these tests."""


def start_fetch(bench, link) -> None:
    client, broker, _ = link
    client.sendall(fetch(1))
    bench.run()
    assert arrived(broker) == fetch(1)


def test_after_a_stall_a_reply_in_the_socket_comes_before_its_deadline(bench):
    """The process stood still for a minute, and the broker had answered in time."""
    link = bench.link()
    client, broker, _ = link
    start_fetch(bench, link)
    broker.sendall(f.reply(1, b"the broker's own"))
    bench.clock.now_ms += EMPTY_FETCH_MS
    bench.run()
    assert arrived(client) == f.reply(1, b"the broker's own")
    assert bench.engine.expired.fetch == 0


def test_a_stall_between_the_poll_and_the_clock_fires_no_deadline(bench):
    """The sockets are polled again before a timer fires, so a reply that came during the stall is seen."""
    link = bench.link()
    client, broker, _ = link
    start_fetch(bench, link)

    class Stalls(WatchedPoller):
        def seen(self, events):
            if len(self.polls) == 1:
                broker.sendall(f.reply(1, b"late"))
                bench.clock.now_ms += EMPTY_FETCH_MS
            return events

    Stalls(bench)
    bench.run()
    assert arrived(client) == f.reply(1, b"late")
    assert bench.engine.expired.fetch == 0


@pytest.mark.parametrize("links", [40, STEP_EVENTS + 30])
def test_after_a_stall_every_reply_is_read_before_a_deadline_fires(bench, links, monkeypatch):
    """There are more replies than a step handles and than a poll returns; none is lost."""
    monkeypatch.setattr(event_loop_module, "STEP_US", 500)
    made = [bench.link() for _ in range(links)]
    for client, _, session in made:
        client.sendall(fetch(1))
        slow_down(bench, session, 100)
    bench.run()
    for _, broker, _ in made:
        broker.sendall(f.reply(1, b"the broker's own"))
    bench.clock.now_ms += EMPTY_FETCH_MS
    bench.run()
    assert bench.engine.expired.fetch == 0
    assert {arrived(client) for client, _, _ in made} == {f.reply(1, b"the broker's own")}


def test_a_stall_between_left_over_events_fires_no_deadline_before_the_next_poll(
    one_event_a_step, bench
):
    """The left-over events are older than the stall, so a reply that came during it is not among them."""
    asking = bench.link()
    start_fetch(bench, asking)
    others = [bench.link() for _ in range(3)]
    bench.settle()
    for client, _, _ in others:
        client.sendall(f.heartbeat(1))
    bench.event_loop.step(0.5)
    assert len(bench.event_loop._tail) == 2
    asking[1].sendall(f.reply(1, b"late"))
    fired: list[int] = []
    bench.engine.timers.arm(bench.clock() + 10, fired.append)
    bench.clock.now_ms += EMPTY_FETCH_MS
    while bench.event_loop.step(0):
        pass
    assert arrived(asking[0]) == f.reply(1, b"late")
    assert bench.engine.expired.fetch == 0
    bench.event_loop.step(0)
    assert fired == [bench.clock()]  # it fires after the poll


def test_timers_fire_under_load_that_never_ends(bench):
    """A due timer fires once every socket may have had a turn, although each poll returns more events."""
    bench.event_loop._step_events = 4
    links = [bench.link() for _ in range(20)]
    bench.run()
    for client, _, _ in links:
        client.sendall(b"".join(f.heartbeat(n) for n in range(2000)))
        client.setblocking(False)
    fired: list[int] = []
    bench.engine.timers.arm(bench.clock() + 10, fired.append)
    bench.clock.now_ms += 10
    steps = 0
    while not fired:
        for number, (client, _, _) in enumerate(links):
            with suppress(BlockingIOError):
                client.send(f.heartbeat(number))
        assert bench.event_loop.step(0) >= 4
        steps += 1
        assert steps <= 2 * len(links) // 4 + 1


def test_a_request_of_sluices_own_is_sent_before_the_clients_next_frame(bench):
    """The client's frame is already in the socket when the session inquires."""
    client, broker, session = bench.link()
    answers: list[bytes | None] = []
    client.sendall(f.heartbeat(1))
    bench.run()
    client.sendall(f.heartbeat(2))
    inquire(session, f.heartbeat(77), 77, answers.append)
    bench.run()
    assert arrived(broker) == f.heartbeat(1) + f.heartbeat(77) + f.heartbeat(2)
    broker.sendall(f.heartbeat_reply(1) + f.heartbeat_reply(77) + f.heartbeat_reply(2))
    bench.run()
    assert arrived(client) == f.heartbeat_reply(1) + f.heartbeat_reply(2)
    assert answers == [f.heartbeat_reply(77)]


def test_a_request_made_during_a_step_is_sent_before_frames_read_later_in_that_step(bench):
    """One session inquires through another, whose client's event comes next."""
    client, broker, session = bench.link()
    other, _, asking = bench.link()
    bench.settle()
    receive_through(asking.handle, lambda _: inquire(session, f.heartbeat(77), 77, lambda _: None))
    other.sendall(f.heartbeat(1))
    client.sendall(f.heartbeat(2))

    class Ordered(WatchedPoller):
        def seen(self, events):
            return sorted(events, key=lambda pair: pair[0] != asking.handle.fd)

    Ordered(bench)
    assert bench.event_loop.step(0.5) == 3, "two events and a turn"
    bench.run()
    assert arrived(broker) == f.heartbeat(77) + f.heartbeat(2)
