"""Turns: steps stay short however many sessions want one, and clients that ask little do not wait for the others.

The clock is the test's: each refused request takes 50 µs.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from policies.api import Reject
from proxy.core.engine import Engine
from proxy.core.session.session import Session
from proxy.shell.event_loop import STEP_US, WAITING_READ_BYTES
from tests.support.core.policies import Recorder
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, receive
from wire.errors import ErrorCode

COST_US = 50
FLOOD = b"".join(f.heartbeat(n) for n in range(60_000 // len(f.heartbeat(1))))
MAX_STEP_US = 2 * STEP_US + 1_000
"""Both halves may end with a whole turn."""


@pytest.fixture
def refusing(make_bench: Callable[[Engine], Bench]) -> Bench:
    """An event loop that refuses each heartbeat, which takes 50 µs."""

    def refuse(_):
        bench.clock.spend(COST_US)
        return Reject(ErrorCode.POLICY_VIOLATION)

    bench = make_bench(make_engine([Recorder(refuse, apis={f.HEARTBEAT})]))
    return bench


def flood(bench: Bench, clients: int) -> list[Session]:
    """Let so many clients send 60 kB of refused requests each; return their sessions."""
    links = [bench.link() for _ in range(clients)]
    bench.settle()
    for client, _, _ in links:
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.send(FLOOD)
    return [session for *_, session in links]


@pytest.mark.parametrize("at", [0, 100], ids=["first reads", "turns"])
def test_no_step_exceeds_its_time_however_many_sessions_want_a_turn(refusing, at):
    """300 clients are refused; a client whose requests pass is served within a round of the poll set."""
    honest, honest_broker, session = refusing.link()
    flood(refusing, 300)
    longest_us, answered = 0, -1
    for number in range(at + 350):
        if number == at:
            honest.sendall(f.produce(1))
        begun_us = refusing.clock.now_us()
        assert refusing.event_loop.step(0) > 0
        longest_us = max(longest_us, refusing.clock.now_us() - begun_us)
        if answered < 0 and session.queue:
            answered = number
    assert longest_us <= MAX_STEP_US
    assert receive(honest_broker, len(f.produce(1))) == f.produce(1)
    assert at <= answered <= at + 300 // 32  # 64 events of 16 KiB are a step's bytes
    asked = len(refusing.engine.chain.entries[0].policy.asked)
    assert asked * COST_US >= 0.3 * (at + 350) * STEP_US  # the steps were used


@pytest.mark.parametrize("clients", [20, 120])
def test_a_client_that_asks_little_has_its_turn_at_once(refusing, clients):
    """It is refused as the others are, but has used less: its wait does not depend on their number."""
    honest, _, session = refusing.link()
    sessions = flood(refusing, clients)
    policy = refusing.engine.chain.entries[0].policy
    while min(each.turn_us for each in sessions) < 2_000:  # each had a whole turn
        refusing.event_loop.step(0)
    for number in range(5):
        honest.sendall(f.heartbeat(number))
        before = session.exchange_ids
        refusing.event_loop.step(0)
        assert session.exchange_ids == before + 1
        assert session.client.sent_bytes  # it has its reply
        for _ in range(clients // 2):
            refusing.event_loop.step(0)
    assert len(policy.asked) > 5 * clients


def test_clients_that_are_refused_progress_equally(refusing):
    """No client of a crowd is left waiting, and none has more turns than the others."""
    sessions = flood(refusing, 40)
    for _ in range(150):
        assert refusing.event_loop.step(0) > 0
    asked = [session.exchange_ids for session in sessions]
    assert min(asked) > 20
    assert max(asked) - min(asked) <= 2 * 16  # a turn is 13 requests


def test_a_read_is_small_while_sessions_wait_for_turns(refusing):
    """Bytes that wait are copied in each turn."""
    sessions = flood(refusing, 40)
    refusing.event_loop.step(0)
    refusing.event_loop.step(0)
    carried = sorted(len(session.client.carry) for session in sessions)
    assert carried[-2] <= WAITING_READ_BYTES  # all but the first, for which no session waited
    assert carried[1] > WAITING_READ_BYTES - 2 * 16 * len(f.heartbeat(1))


def test_waiting_sessions_have_their_turns_equally_often(bench, monkeypatch):
    """Turns of the same length are given in rounds, over several steps; sockets are read in between."""
    order: list[int] = []
    links = [bench.link() for _ in range(12)]
    places = {id(session): place for place, (_, _, session) in enumerate(links)}
    from_client = type(links[0][2]).from_client

    def count(session, buf, start, end, now_ms):
        order.append(places[id(session)])
        bench.clock.spend(900)
        return from_client(session, buf, start, end, now_ms)

    monkeypatch.setattr(type(links[0][2]), "from_client", count)
    stream = b"".join(f.heartbeat(n, client_id=f"client-{n}") for n in range(600))
    for client, _, _ in links:
        client.sendall(stream)
    bench.run()
    last = max(order.index(place) for place in range(12))  # by then all have been read
    had = [order[last : last + 5 * 12].count(place) for place in range(12)]
    assert max(had) - min(had) <= 2
    for _, broker, _ in links:
        assert receive(broker, len(stream)) == stream


def test_a_session_stands_in_the_queue_of_turns_once(bench):
    """100 calls of `ask_for_turn` add one entry, so the queue is never longer than the number of sessions."""
    _, _, session = bench.link()
    for _ in range(100):
        bench.engine.ask_for_turn(session)
    assert len(bench.engine.turns.queue) == 1
    bench.run()
    assert not bench.engine.turns.queue
    bench.engine.ask_for_turn(session)
    assert len(bench.engine.turns.queue) == 1


def test_what_is_in_the_sockets_is_handled_before_they_are_closed_however_short_steps_are(
    refusing, monkeypatch
):
    """300 requests take thirty steps and more: each is answered."""
    monkeypatch.setattr("proxy.shell.event_loop.STEP_US", 10 * COST_US)
    clients = [refusing.link()[0] for _ in range(300)]
    refusing.settle()
    for client in clients:
        client.sendall(f.heartbeat(1))
    refusing.event_loop.read_out()
    for client in clients:
        client.setblocking(False)
        assert client.recv(1 << 10)
