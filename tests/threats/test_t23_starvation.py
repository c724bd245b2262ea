"""T23: a few bulk flows, or many odd frames, that keep the event loop for themselves.

Work per step is bounded, and what is left over goes first in the next step. Flows that always have more to send make
equal progress over real sockets, judged by counts; a small client between them is served.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from proxy.core.engine import Engine
from proxy.shell import event_loop as event_loop_module
from tests.support import frames as f
from tests.support.memory import small_engine
from tests.support.sessions import make_engine
from tests.support.sockets import Bench

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
