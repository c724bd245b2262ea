"""What the event loop does first: sockets before deadlines, questions of our own before the client's next frame."""

from __future__ import annotations

from contextlib import suppress

import pytest

from proxy.shell import event_loop as event_loop_module
from proxy.shell.event_loop import STEP_EVENTS
from tests.support import frames as f
from tests.support.sockets import Bench, WatchedPoller, arrived, slow_down
from tests.support.throttled import fetch

BEAT = len(f.heartbeat(1))
EMPTY_FETCH_MS = 60_000
"""Long after any fetch of these tests is answered here."""


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


def ask_to_wait(bench: Bench, link) -> None:
    client, broker, _ = link
    client.sendall(fetch(1))
    bench.run()
    assert arrived(broker) == fetch(1)


def test_after_a_stall_a_reply_in_the_socket_comes_before_its_deadline(bench):
    """The process stood still for a minute, and the broker had answered."""
    link = bench.link()
    client, broker, _ = link
    ask_to_wait(bench, link)
    broker.sendall(f.reply(1, b"the broker's own"))
    bench.clock.now_ms += EMPTY_FETCH_MS
    bench.run()
    assert arrived(client) == f.reply(1, b"the broker's own")
    assert bench.engine.expired.fetch == 0


def test_a_stall_between_the_poll_and_the_look_at_the_clock_is_none_for_the_sockets(bench):
    """What came while the process stood still is looked for again before a timer fires."""
    link = bench.link()
    client, broker, _ = link
    ask_to_wait(bench, link)

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
def test_after_a_stall_every_reply_is_read_before_a_deadline_fires(links, monkeypatch):
    """More than a step handles, and more than a poll brings: none of them is thrown away."""
    monkeypatch.setattr(event_loop_module, "STEP_US", 500)
    bench = Bench()
    try:
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
    finally:
        bench.close()


def test_a_stall_in_the_middle_of_a_tail_fires_nothing_before_the_next_poll(
    bench, one_event_a_step
):
    """The tail is older than the stall; a reply that came since is not in it."""
    asking = bench.link()
    ask_to_wait(bench, asking)
    others = [bench.link() for _ in range(3)]
    settled(bench)
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
    assert fired == [bench.clock()]  # and it does fire


def test_timers_fire_under_load_that_never_ends(monkeypatch):
    """However much each poll brings: as soon as every socket may have had a turn."""
    monkeypatch.setattr(event_loop_module, "STEP_EVENTS", 4)
    bench = Bench()
    try:
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
            assert bench.event_loop.step(0) == 4
            steps += 1
            assert steps <= 2 * len(links) // 4 + 1
    finally:
        bench.close()


def test_a_question_of_our_own_goes_out_before_the_clients_next_frame(bench):
    """Both happen in one step: the client's frame stands in the socket when the question is asked."""
    client, broker, session = bench.link()
    answers: list[bytes | None] = []
    client.sendall(f.heartbeat(1))
    bench.run()
    client.sendall(f.heartbeat(2))
    session.inquire(f.heartbeat(77), 77, answers.append)
    bench.run()
    assert arrived(broker) == f.heartbeat(1) + f.heartbeat(77) + f.heartbeat(2)
    broker.sendall(f.heartbeat_reply(1) + f.heartbeat_reply(77) + f.heartbeat_reply(2))
    bench.run()
    assert arrived(client) == f.heartbeat_reply(1) + f.heartbeat_reply(2)
    assert answers == [f.heartbeat_reply(77)]


def test_a_question_asked_in_the_middle_of_a_step_goes_out_before_frames_read_later_in_it(bench):
    """Asked by one session about another, whose client's event comes next."""
    client, broker, session = bench.link()
    other, _, asking = bench.link()
    settled(bench)
    take = asking.handle.take

    def ask(buf, start, end, now_ms):
        session.inquire(f.heartbeat(77), 77, lambda _: None)
        return take(buf, start, end, now_ms)

    asking.handle.take = ask
    other.sendall(f.heartbeat(1))
    client.sendall(f.heartbeat(2))

    class Ordered(WatchedPoller):
        def seen(self, events):
            return sorted(events, key=lambda pair: pair[0] != asking.handle.fd)

    Ordered(bench)
    assert bench.event_loop.step(0.5) == 2
    bench.run()
    assert arrived(broker) == f.heartbeat(77) + f.heartbeat(2)
