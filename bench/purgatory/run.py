"""One run in a separate process: `python -m bench.purgatory.run CANDIDATE WORKLOAD`, JSON on stdout.

So memory and CPU belong to that run alone. CPU is that of the whole process, from the first request until none is
left. The garbage collector has the proxy's settings.
"""

import gc
import json
import os
import random
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.harness.usage import peak_bytes
from bench.purgatory.play import Book, Player, Queue, Request
from bench.purgatory.workload import TIMEOUT_MS, draw_keys, saved
from proxy.core.purgatory.purgatory import Purgatory
from proxy.core.purgatory.timers import Timers

SIMPLE_SIZE = 256
"""Buckets of the simple wheel; must exceed the timeout in milliseconds."""
HASHED_SIZE = 64
"""Buckets of the hashed wheel: fewer than the timeout in milliseconds."""


WAITING: Final = 10_000
"""Requests that are put in to count the memory blocks of each."""


class CollectorTime:
    """Sums the time of Python's garbage collector, in nanoseconds."""

    def __init__(self) -> None:
        self.ns = 0
        self._began_ns = 0

    def __call__(self, phase: str, _: object) -> None:
        """Note the start or the stop of a collection."""
        if phase == "start":
            self._began_ns = time.monotonic_ns()
        else:
            self.ns += time.monotonic_ns() - self._began_ns


def player(name: str, book: Book) -> Player:
    """Return a player with the candidate of that name.

    Raises:
        ValueError: the name is unknown.
    """
    if name == "wheel":
        queue: Queue = Timers()
        return Player(queue, Purgatory(queue), book)
    # Imported on demand: a module that extends a class cannot be loaded if that class is compiled.
    from bench.purgatory import linked_wheel, queues  # noqa: PLC0415 - see above

    if name == "loop":
        queue = Timers()
        return Player(queue, queues.NoPurgatory(queue), book)
    makers: dict[str, Callable[[], Queue]] = {
        "list": queues.TimerList,
        "heap": queues.TimerHeap,
        "simple": lambda: queues.SimpleWheel(SIMPLE_SIZE),
        "hashed": lambda: queues.HashedWheel(HASHED_SIZE),
        "linked": linked_wheel.LinkedTimers,
    }
    if name not in makers:
        raise ValueError(f"unknown candidate {name}")
    queue = makers[name]()
    return Player(queue, Purgatory(queue), book, _kind(name))


def _kind(name: str) -> type[Request]:
    """Return the class of the candidate's requests."""
    if name != "linked":
        return Request
    from bench.purgatory import linked_wheel  # noqa: PLC0415 - as in `player`

    return linked_wheel.LinkedRequest


def blocks_each(name: str) -> float:
    """Return the memory blocks that a waiting request holds in this candidate, the candidate's own for it included."""
    made, kind = player(name, Book([])), _kind(name)
    keys = draw_keys(random.Random(1))
    before = sys.getallocatedblocks()
    for nth in range(WAITING):
        at_ms = 1 + nth % TIMEOUT_MS
        request = kind(TIMEOUT_MS + 1, made.book)
        made.purgatory.try_complete_else_watch(request, keys, at_ms, 0)
    return (sys.getallocatedblocks() - before) / WAITING


def lateness_us(book: Book) -> list[int]:
    """Return the lateness of each expired request in microseconds, sorted."""
    late: list[int] = []
    before = 0
    for expired, fired_us in book.fired_us:
        late += [fired_us - at_ms * 1000 for at_ms in book.deadlines_ms[before:expired]]
        before = expired
    return sorted(late)


def run(name: str, stem: Path) -> dict[str, float]:
    """Play the workload; return figures in requests, seconds, microseconds and bytes.

    Raises:
        AssertionError: requests were lost.
    """
    workload = saved(stem)
    requests = workload.requests
    book = Book(array("q", bytes(8 * requests)))
    made = player(name, book)
    slots, keys = workload.pairs(), draw_keys(random.Random(1))
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    collector = CollectorTime()
    gc.callbacks.append(collector)
    began, began_cpu_ns = time.monotonic(), time.process_time_ns()
    made.play(slots, workload.latencies_ms, keys, TIMEOUT_MS)
    cpu_ns, seconds = time.process_time_ns() - began_cpu_ns, time.monotonic() - began
    peak = peak_bytes(os.getpid())
    left = made.purgatory.num_delayed
    if book.completed != requests or left:
        raise AssertionError(f"{book.completed} of {requests} completed, {left} left")
    late = lateness_us(book)
    return {
        "requests": requests,
        "target": workload.target,
        "actual": requests * 1e6 / made.enqueued_us,
        "cores": cpu_ns / 1e9 / seconds,
        "cpu_us": cpu_ns / 1000 / requests,
        "late_p99_us": late[len(late) * 99 // 100] if late else 0,
        "expired": book.expired / requests,
        "resident_bytes": peak,
        "gc_ms": collector.ns / 1e6,
        "blocks": blocks_each(name),
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]))))
