"""T5: a pool that is used up for good, by requests that wait for memory while they hold some.

A request reserves memory as it arrives; one that has begun may exceed the pool, so that it ends; ordinary ones have a
part that larger ones cannot take; replies have a pool of their own.
`tests/proxy/core/memory/test_pool_machine.py` checks the pool's laws in any order of events; here are the figures of
200 clients in a pool that has room for one of the largest requests. Time is virtual.
"""

import random

from proxy.core.errors import CloseReason
from tests.support.core.memory import Link, kept, small_engine
from tests.support.processes.measured import scaled, tell

CLIENTS = 200
LARGEST_BYTES = 16 << 20
SMALL_BYTES = 1 << 10
SECONDS = scaled(20, 60)
STEP_BYTES = 4 << 20
"""The most that a client sends in a tenth of a second."""
WINDOW_BYTES = 256 << 10
"""The most that the kernel takes of a client that is not read."""
STEP_MS = 100
LEAST_LARGE_PER_S = 2
LARGE, SMALL = kept(1, LARGEST_BYTES), kept(1, SMALL_BYTES)


class Sender:
    """A client that sends one request, and then, or when it is cut off, comes again."""

    def __init__(self, engine, number: int, chance: random.Random) -> None:
        self.engine, self.number, self.chance = engine, number, chance
        self.done = self.cut = 0
        self.waits_ms: list[int] = []
        self.small_waits_ms: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.link = Link(self.engine, f"10.1.0.{self.number}")
        self.request = LARGE if self.chance.random() < 0.05 else SMALL
        self.at = 0
        self.began_ms = self.engine.now_ms

    def step(self) -> bool:
        """Return whether this client made progress."""
        link = self.link
        if self.chance.random() < 0.01:
            self.leave()
            self.cut += 1
            self.begin()
            return False
        if self.at < len(self.request) and not link.unread and not link.waits:
            stop = min(self.at + STEP_BYTES, len(self.request))
            while self.at < stop and not link.unread:
                link.client(self.request[self.at : self.at + WINDOW_BYTES])
                self.at += WINDOW_BYTES
            return not link.waits
        if len(link.to_broker) < len(self.request):
            return False
        self.done += 1
        waits_ms = self.waits_ms if self.request is LARGE else self.small_waits_ms
        waits_ms.append(self.engine.now_ms - self.began_ms)
        self.leave()
        self.begin()
        return True

    def leave(self) -> None:
        """Close the connection."""
        link = self.link
        link.session.client_lost(self.engine.now_ms)
        link.settle()
        link.release()


def test_a_pool_of_the_size_of_one_request_never_stands_still() -> None:
    """Some client makes progress in every second, the largest requests are served as fast as one after the other can
    be, small ones do not wait for them, and all memory is given back.
    """
    chance = random.Random(5)
    engine = small_engine(LARGEST_BYTES, request_max_bytes=LARGEST_BYTES)
    senders = [Sender(engine, number, chance) for number in range(CLIENTS)]
    idle_ms = longest_idle_ms = 0
    for _ in range(SECONDS * 1000 // STEP_MS):
        idle_ms += STEP_MS
        for sender in senders:
            if sender.step():
                idle_ms = 0
        longest_idle_ms = max(longest_idle_ms, idle_ms)
        pool = engine.request_pool
        assert pool.used_bytes + pool.available_memory() == pool.size_bytes
        senders[0].link.advance(STEP_MS)
    large = sum(len(sender.waits_ms) for sender in senders)
    small_ms = max(wait for sender in senders for wait in sender.small_waits_ms)
    done, cut = sum(each.done for each in senders), sum(each.cut for each in senders)
    tell("T5", f"{done} requests, {large} of them of 16 MiB, {cut} cut off; no progress for "
         f"{longest_idle_ms} ms at most; the longest wait of a small one {small_ms} ms")  # fmt: skip
    assert longest_idle_ms < 1000
    assert large >= LEAST_LARGE_PER_S * SECONDS
    assert small_ms <= 2 * STEP_MS  # a client may come just before its step
    for sender in senders:
        sender.link.session.client_lost(engine.now_ms)
        sender.link.release()
    assert engine.request_pool.used_bytes == 0
    assert not engine.sessions
    assert {reason for reason, _ in senders[0].link.watcher.closed} == {CloseReason.CLIENT_RESET}
