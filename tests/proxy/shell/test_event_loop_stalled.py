"""A broker that takes nothing, behind many bulk producers: each reply that is due has its deadline.

The sockets are real, time is virtual. `tests/faults/test_stalled_broker.py` has a whole Sluice, and its memory.
"""

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.grace_times import GraceTimes
from proxy.core.session.session import Session
from proxy.shell.dial import UNSENT_BYTES
from proxy.shell.loop_limits import READ_BYTES
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.messages.raw import receive, receive_until_closed
from tests.support.messages.waiting import WAIT_MS, ids
from tests.support.shell.sockets import Bench, arrived

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no limit of unsent bytes"
)
PRODUCERS: Final = 20
REQUESTS: Final = [f.produce(number, size_bytes=400_000) for number in range(8)]
DATA: Final = b"".join(REQUESTS)
TIMEOUT_MS: Final = 60_000
CHECKS_MS: Final = TIMEOUT_MS // 4
"""How often it is seen whether a broker has taken bytes."""


@dataclass(slots=True)
class Producer:
    """The far ends of a link. `left`: what its client has not sent; `taken`: what its broker has read.

    `whole`: how many whole requests Sluice has read while the broker took nothing.
    """

    client: socket.socket
    broker: socket.socket
    session: Session
    left: memoryview = field(default_factory=lambda: memoryview(DATA))
    taken: bytearray = field(default_factory=bytearray)
    whole: int = 0

    def send(self) -> None:
        with suppress(BlockingIOError):
            self.left = self.left[self.client.send(self.left) :]

    def take(self) -> None:
        with suppress(BlockingIOError):
            self.taken += self.broker.recv(1 << 20)


def run_until(bench: Bench, condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Act and step until the condition holds."""
    for _ in range(20_000):
        act()
        bench.event_loop.step(0)
        if condition():
            return
    raise AssertionError("the condition does not hold after 20,000 steps")


@pytest.fixture
def stalled(make_bench) -> tuple[Bench, list[Producer]]:
    """Return an event loop whose producers have sent what is taken, to brokers that read nothing."""
    graces = GraceTimes(silence_ms=10_000)
    bench = make_bench(make_engine(graces=graces, request_timeout_ms=TIMEOUT_MS))
    producers = [Producer(*bench.link()) for _ in range(PRODUCERS)]
    for each in producers:
        each.client.setblocking(False)
        each.broker.setblocking(False)
        with socket.socket(fileno=socket.dup(each.session.handle.other.fd)) as near:
            near.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES
            )  # as dialled

    def are_stuck() -> bool:
        return all(each.session.client.muted & Mute.BACKPRESSURE for each in producers)

    run_until(bench, are_stuck, lambda: [each.send() for each in producers])
    bench.run(0)
    for each in producers:
        each.whole = len(each.session.queue) - bool(each.session.request_left)
    return bench, producers


def later(bench: Bench, elapsed_ms: int) -> None:
    """Let time pass."""
    bench.clock.now_ms += elapsed_ms
    bench.run(0)


def test_each_whole_request_is_answered_at_its_deadline_and_then_the_connection_closes(stalled):
    """In order and once. It closes because no byte was taken for the request timeout: a request is not sent whole."""
    bench, producers = stalled
    later(bench, WAIT_MS - 1)
    assert not any(arrived(each.client) for each in producers)
    later(bench, 1)
    for each in producers:
        assert each.whole
        assert ids(arrived(each.client)) == list(range(each.whole))
    later(bench, TIMEOUT_MS - WAIT_MS)
    assert not any(each.session.ended for each in producers)
    for _ in range(8):
        later(bench, CHECKS_MS)
    assert {each.session.reason for each in producers} == {CloseReason.UPSTREAM_REQUEST_TIMEOUT}
    assert not any(receive_until_closed(each.client) for each in producers)
    assert bench.held_bytes == 0


def test_brokers_that_go_on_in_time_answer_everything_themselves(stalled):
    """No request is lost or sent twice, and nothing is answered here."""
    bench, producers = stalled
    later(bench, WAIT_MS - 1)

    def act() -> None:
        for each in producers:
            each.send()
            each.take()

    run_until(bench, lambda: all(len(each.taken) >= len(DATA) for each in producers), act)
    replies = b"".join(f.produce_reply(number) for number in range(len(REQUESTS)))
    for each in producers:
        assert each.taken == DATA
        each.broker.sendall(replies)
    bench.run(0)
    assert all(arrived(each.client) == replies for each in producers)
    assert bench.held_bytes == 0


@pytest.mark.parametrize("is_slow", [False, True], ids=["stalled", "slow"])
def test_small_requests_to_another_broker_wait_for_two_steps_at_most(stalled, is_slow) -> None:
    """Alone they and their replies wait for one. One of the other brokers reads in each step, or none does. A producer
    holds one read at most.
    """
    bench, producers = stalled
    small, small_broker, session = bench.link()
    near = session.handle
    for number in range(200):
        if is_slow:
            producer = producers[number % PRODUCERS]
            producer.take()
            producer.send()
        request, reply = f.heartbeat(number), f.heartbeat_reply(number)
        small.sendall(request)
        assert steps_until_read(bench, near.fd) in {1, 2}
        assert receive(small_broker, len(request)) == request
        small_broker.sendall(reply)
        assert steps_until_read(bench, near.other.fd) in {1, 2}
        assert receive(small, len(reply)) == reply
        assert bench.held_bytes <= PRODUCERS * READ_BYTES
    assert is_slow == any(len(each.taken) > UNSENT_BYTES for each in producers)


def steps_until_read(bench: Bench, fd: int) -> int:
    """Return how many steps it takes to read this socket, once the kernel has delivered what was sent to it."""
    steps, wait_s = 0, 60.0
    while select.select([fd], [], [], wait_s)[0]:
        bench.event_loop.step(0)
        steps, wait_s = steps + 1, 0.0
    return steps
