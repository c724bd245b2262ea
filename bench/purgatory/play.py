"""The workload of Kafka's benchmark in real time on one thread: requests arrive, wait, and complete or expire.

- The workload was drawn before the run (`workload`); a step only reads the clock a few times.
- A step calls `force_complete` on each request that is to complete by now. As in Kafka's benchmark no key is checked.
  Then come the deadlines, and the requests that arrive in this millisecond.
- It sleeps until the next millisecond if it is early. If it is late it catches up, and drops no request.
- Cython compiles this module with the wheel and the purgatory for the compiled candidate (`play.pxd`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.purgatory.purgatory import DelayedOperation, Purgatory
from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Collection, MutableSequence, Sequence

RING: Final = 256
"""The longest time to completion in milliseconds; the timeout must be less."""


class Queue(Protocol):
    """A candidate: an entry fires at the first `advance` at or after its time."""

    def add(self, entry: TimerEntry) -> None:
        """Add an entry, which fires at its time unless it is cancelled."""

    def advance(self, now_ms: int) -> None:
        """Fire the entries that are due."""


class Book:
    """The outcome of the requests; times in milliseconds and microseconds since the start."""

    __slots__ = ("completed", "deadlines_ms", "expired", "fired_us")

    def __init__(self, deadlines_ms: MutableSequence[int]) -> None:
        self.completed = 0
        self.expired = 0
        self.deadlines_ms = (
            deadlines_ms  # of the expired requests, in that order; it has room for all requests
        )
        self.fired_us: list[tuple[int, int]] = []  # (number expired so far, time)


class Request(DelayedOperation):
    """Kafka's FakeOperation, which completes at its time."""

    __slots__ = ("book", "completes_ms")

    def __init__(self, completes_ms: int, book: Book) -> None:
        self.at_ms = 0
        self.bucket = NOWHERE
        self.completed = False
        self.keys = ()
        self.purgatory = None
        self.completes_ms = completes_ms
        self.book = book

    def try_complete(self, now_ms: int) -> bool:
        """Complete it if its time has come; return whether this call did."""
        return now_ms >= self.completes_ms and self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """Count the completion."""
        self.book.completed += 1

    def on_expiration(self, now_ms: int) -> None:
        """Record the deadline."""
        book = self.book
        book.deadlines_ms[book.expired] = self.at_ms
        book.expired += 1


class Player:
    """One run of one candidate."""

    __slots__ = (
        "_kind",
        "_now_ms",
        "_ring",
        "_start_ns",
        "book",
        "enqueued_us",
        "purgatory",
        "queue",
    )

    def __init__(
        self, queue: Queue, purgatory: Purgatory, book: Book, kind: type[Request] = Request
    ) -> None:
        self.queue = queue
        self.purgatory = purgatory
        self.book = book
        self.enqueued_us = 0
        """The time at which the last request was in the purgatory."""
        self._kind = kind
        self._ring: list[list[Request]] = [[] for _ in range(RING)]
        self._now_ms = 0
        self._start_ns = 0

    def play(
        self,
        slots: Sequence[tuple[int, int]],
        latencies_ms: Sequence[int],
        keys: Collection[str],
        timeout_ms: int,
    ) -> None:
        """Add the requests of `slots`, pairs of (millisecond, number), and wait until none is left."""
        book, ring, kind = self.book, self._ring, self._kind
        try_complete_else_watch = self.purgatory.try_complete_else_watch
        done = 0
        self._start_ns = time.monotonic_ns()
        for at_ms, count in slots:
            now_ms = self._wait(at_ms)
            for latency_ms in latencies_ms[done : done + count]:
                request = kind(now_ms + latency_ms, book)
                if latency_ms < timeout_ms:
                    ring[(now_ms + latency_ms) % RING].append(request)
                try_complete_else_watch(request, keys, now_ms + timeout_ms, now_ms)
            done += count
        self.enqueued_us = (time.monotonic_ns() - self._start_ns) // 1000
        while book.completed < done:
            self._wait(self._now_ms + 1)

    def _wait(self, until_ms: int) -> int:
        """Step until this millisecond has begun; return the current millisecond."""
        while True:
            elapsed_ns = time.monotonic_ns() - self._start_ns
            now_ms = elapsed_ns // 1_000_000
            if now_ms > self._now_ms:
                self._step(now_ms)
            elif now_ms < until_ms:
                time.sleep(((now_ms + 1) * 1_000_000 - elapsed_ns) * 1e-9)
            if now_ms >= until_ms:
                return now_ms

    def _step(self, now_ms: int) -> None:
        book, ring = self.book, self._ring
        for ms in range(self._now_ms + 1, now_ms + 1):
            requests = ring[ms % RING]
            for request in requests:
                request.force_complete(now_ms)
            requests.clear()
        self._now_ms = now_ms
        before = book.expired
        self.queue.advance(now_ms)
        if book.expired != before:
            book.fired_us.append((book.expired, (time.monotonic_ns() - self._start_ns) // 1000))
