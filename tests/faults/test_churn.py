"""Closed connections leave no memory in use."""

from contextlib import ExitStack

import psutil

from tests.support.faults.honest import Honest
from tests.support.kafka.load import await_that

TOGETHER = 500
ROUNDS = 6
GROWTH_BYTES = 2 << 20


def test_memory_does_not_grow_with_closed_connections(start, broker) -> None:
    """Five hundred clients connect, leave and come again; the memory of the first ones is used again."""
    sluice = start(broker.server)
    process = psutil.Process(sluice.pid)

    def come_and_go() -> int:
        with ExitStack() as crowd:
            for number in range(TOGETHER):
                crowd.enter_context(Honest(sluice.port, f"guest{number}")).ask()
        await_that(lambda: process.num_fds() <= TOGETHER // 4, "connections to be closed")
        return process.memory_info().rss

    first = come_and_go()
    last = [come_and_go() for _ in range(ROUNDS)][-1]
    assert last - first < GROWTH_BYTES
