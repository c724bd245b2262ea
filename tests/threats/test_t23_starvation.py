"""T23: a few bulk flows, or many odd frames, that keep the event loop for themselves.

Work per step is bounded, and what is left over goes first in the next step. Flows that always have more to send make
equal progress over real sockets, judged by counts; a small client between them is served. While sessions wait for
turns, requests of the general path wait for theirs, and so the sockets of all other clients are read first.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from policies.api import FORWARD, Peer, Policy, Reject, Request, Verdict
from policies.testing import BenchHost
from proxy.core.engine import Engine
from proxy.shell import event_loop as event_loop_module
from tests.support.core.memory import small_engine
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.processes.measured import Work, counted_work, scaled, tell
from tests.support.shell.sockets import Bench, HandClock
from wire.errors import ErrorCode

FLOWS = 12
STEPS = 1500
MAX_WAIT_STEPS = 2 * (2 * FLOWS + 2)
"""A poll brings each socket once, a step handles one event at least, and a request may just have missed a poll."""


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a step time for three or four flows of twelve."""
    monkeypatch.setattr(event_loop_module, "STEP_BYTES", 200_000)


@pytest.fixture
def make_bench() -> Iterator[Callable[[Engine], Bench]]:
    """A function that returns an event loop with this engine."""
    made: list[Bench] = []

    def make(engine: Engine) -> Bench:
        made.append(Bench(engine))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


class Flow:
    """A client that sends without end, and a broker that takes all of it."""

    def __init__(self, client: socket.socket, broker: socket.socket, number: int) -> None:
        self.client, self.broker = client, broker
        self.data = f.produce(number, acks=0, size_bytes=400_000)
        self.at = self.moved_bytes = 0
        for each in (client, broker):
            each.setblocking(False)

    def push(self) -> None:
        with suppress(BlockingIOError):
            while sent := self.client.send(memoryview(self.data)[self.at :]):
                self.at = (self.at + sent) % len(self.data)

    def pull(self) -> None:
        with suppress(BlockingIOError):
            while got := self.broker.recv(1 << 20):
                self.moved_bytes += len(got)


def run(bench: Bench) -> list[int]:
    """Return how many bytes of each flow arrived."""
    flows = [Flow(*bench.link()[:2], number) for number in range(FLOWS)]
    small, small_broker, _ = bench.link()
    small_broker.setblocking(False)
    waited = asked = 0
    for step in range(STEPS):
        for flow in flows:
            flow.push()
        if not waited:
            small.sendall(f.heartbeat(asked))
            asked += 1
        assert bench.event_loop.step(0) > 0
        waited += 1
        with suppress(BlockingIOError):
            if small_broker.recv(1000):
                waited = 0
        assert waited <= MAX_WAIT_STEPS, (
            f"a small request has waited for {waited} steps by step {step}"
        )
        for flow in flows:
            flow.pull()
    assert asked >= STEPS / MAX_WAIT_STEPS
    return [flow.moved_bytes for flow in flows]


@pytest.mark.usefixtures("small_budget")
def test_no_flow_starves_in_any_order_of_the_poll_set(make_bench) -> None:
    """Each flow is within 30 % of the mean, and a small client is served between them."""
    moved = run(make_bench(make_engine()))
    mean = sum(moved) / len(moved)
    spread = max(abs(each - mean) for each in moved) / mean
    tell(
        "T23",
        f"{FLOWS} bulk flows: within {spread:.1%} of their mean, and a small client was served",
    )
    assert all(abs(each - mean) <= 0.3 * mean for each in moved), moved


@pytest.mark.usefixtures("small_budget")
def test_no_flow_starves_while_memory_is_short(make_bench) -> None:
    """Near the limit of memory each read is smaller, equally for all flows."""
    engine = small_engine(64 << 20)
    engine.request_pool.force_allocate(61 << 20)
    assert engine.request_pool.near_limit
    moved = run(make_bench(engine))
    mean = sum(moved) / len(moved)
    assert all(abs(each - mean) <= 0.3 * mean for each in moved), moved


REFUSED_CLIENTS = scaled(60, 300)
REFUSED_BYTES = 60_000
STEPS_WATCHED = scaled(120, 1200)
LINES_PER_US = 25
"""A line takes some 0.04 us. The loop's clock counts lines, so that no verdict depends on the machine."""
MAX_STEP_US = 4_000
"""A step has 2 ms. Its last event or turn begins before they are over, and takes 1 ms at most."""
FIRST_TURN_US = 65
"""What is done for each client before the honest one's first request: a read, and a turn of one refused request."""
MAX_WAIT_US = 2_000 + REFUSED_CLIENTS * FIRST_TURN_US


class WorkClock(HandClock):
    """A clock that advances by the lines of Python that are executed."""

    work: Work

    @property
    def spent_us(self) -> int:
        return self.work.lines // LINES_PER_US


class Refuser(Policy):
    """Refuses each DeleteTopics. It remembers nothing, so its work stays the same."""

    Config = dict

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        return Reject(ErrorCode.POLICY_VIOLATION) if request.api_key == f.DELETE_TOPICS else FORWARD


def test_refused_requests_of_many_clients_keep_no_honest_client_waiting(make_bench) -> None:
    """60 kB of refused requests from each at once; an honest client sends one request after the other."""
    bench = make_bench(make_engine([Refuser({}, BenchHost())]))
    one = f.request(f.DELETE_TOPICS, 1, 1, bytes(8))
    data = one * (REFUSED_BYTES // len(one))
    crowd = [bench.link()[::2] for _ in range(REFUSED_CLIENTS)]
    honest, honest_broker, _ = bench.link()
    crowd[0][0].sendall(one)  # so that the modules for it are loaded
    bench.run()
    for each in (honest_broker, *(client for client, _ in crowd)):
        each.setblocking(False)
    for client, _ in crowd:
        assert client.send(data) == len(data)
    honest.sendall(f.heartbeat(0))
    step_us, waits_us, wait_us = 0, [], 0
    answered = dict.fromkeys(range(REFUSED_CLIENTS), 0)
    with counted_work() as work:
        bench.clock.__class__ = WorkClock
        bench.clock.work = work
        for _ in range(STEPS_WATCHED):
            before_us = bench.clock.spent_us
            assert bench.event_loop.step(0) > 0
            took_us = bench.clock.spent_us - before_us
            step_us = max(step_us, took_us)
            wait_us += took_us
            for number, (client, _) in enumerate(crowd):
                with suppress(BlockingIOError):
                    answered[number] += len(client.recv(1 << 20))
            with suppress(BlockingIOError):
                if honest_broker.recv(1000):
                    waits_us.append(wait_us)
                    wait_us = 0
                    honest.sendall(f.heartbeat(len(waits_us)))
    waits_us.sort()
    tell("T23", f"{REFUSED_CLIENTS} clients x 60 kB of refused requests: at most {step_us / 1000:.1f} ms of work in a "
         f"step; an honest request waited {waits_us[len(waits_us) * 99 // 100] / 1000:.1f} ms (p99), "
         f"{waits_us[-1] / 1000:.1f} ms at most")  # fmt: skip
    assert len(waits_us) >= STEPS_WATCHED // 2
    assert step_us < MAX_STEP_US
    assert waits_us[-1] < MAX_WAIT_US
    assert min(answered.values()) > 0
