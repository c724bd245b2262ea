"""`python -m bench.telemetry`: the CPU cost of telemetry; writes its section of bench/RESULTS.md.

The method is that of `bench.path`: one session in one process. *On the loop* is the CPU time of the thread that
forwards; *in all* adds the threads that encode and write, once they are idle. A round consists of slices of a few
milliseconds in which all cases take turns, so that a slow machine slows all of them. The session's clock advances by a
millisecond for 16 requests: 16,000 requests are a second and include what happens once a second.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.harness import FOLDER
from bench.harness.figures import spread
from bench.harness.machine import describe, today
from bench.harness.markdown import write_section
from bench.in_process import BATCH, PRODUCE, SessionLoop
from bench.telemetry_report import Cost, Found, Once, section
from policies.api import Peer, Policy, QuotaViolation, Throttle
from policies.testing import BenchHost
from proxy.core.stats.usage import MAX_KEYS, UsageRow
from proxy.telemetry.metrics.exposition import render
from proxy.telemetry.traces import batch_processor
from tests.support.sessions import make_engine
from tests.support.telemetry import PARTS, Listeners

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Request

REQUESTS: Final = 16_000
ROUNDS: Final = 25
SLOW_SHARE: Final = 10
"""Throttled and walked requests cost many times an ordinary one; their cases have this many times fewer."""
SAMPLE_EVERY: Final = 1000
SLOW_MS: Final = 1000
SLICES: Final = 20
REST_S: Final = 0.005
DELAY_MS = batch_processor.DELAY_MS
"""The delay with which a running proxy collects spans."""
CONNECTIONS: Final = 5000
VIOLATION: Final = QuotaViolation("user=bench", "request_rate", 120.0, 100.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One set of listeners: `parts` as in `Listeners` (None: no listeners), `families` of usage log."""

    name: str
    yardstick: str = ""
    parts: tuple[str, ...] | None = None
    families: tuple[str, ...] = ()
    sample_every: int = 0
    batch: int = BATCH
    throttled: bool = False
    goal: bool = True
    """Whether the goal applies: to ordinary requests, with what is on by default."""


FAMILIES: Final = ("entity", "api", "instance")
NOTHING: Final = "no listeners"
ALL: Final = "all of them, with the log and the dashboard's data"
ALONE: Final = "one request a read: no listeners"
QUIET: Final = "each request throttled: no listeners"
CASES: Final = (
    Case(NOTHING),
    Case("metrics", NOTHING, ("metrics",)),
    Case("usage log (entity, api, instance)", NOTHING, (), FAMILIES),
    Case("traces, one in 1,000 sampled", NOTHING, ("traces",), sample_every=SAMPLE_EVERY),
    Case(ALL, NOTHING, PARTS, FAMILIES, SAMPLE_EVERY),
    Case(
        "usage log by topic (reads bodies; off by default)",
        *(NOTHING, (), ("topic",)),
        goal=False,
    ),
    Case(ALONE, batch=1),
    Case("one request a read: " + ALL, ALONE, PARTS, FAMILIES, SAMPLE_EVERY, batch=1),
    Case(QUIET, batch=1, throttled=True),
    Case(
        "each request throttled: all of them",
        *(QUIET, PARTS, FAMILIES),
        batch=1,
        throttled=True,
        goal=False,
    ),
)


class Taken(NamedTuple):
    """Microseconds of CPU per request and reply."""

    loop_us: float
    all_us: float


class _ThrottleAll(Policy):
    """Throttles each request by a millisecond; it is not called for replies."""

    Config = dict
    response_apis = frozenset()

    def __init__(self) -> None:
        super().__init__({}, BenchHost())

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Throttle:
        return Throttle(1, why=VIOLATION)


class _Run:
    def __init__(self, case: Case, folder: Path, requests: int) -> None:
        self.case = case
        # Batches a millisecond; a throttle of a millisecond ends with the next one.
        self._per_ms = 1 if case.throttled else BATCH // case.batch
        slow = case.throttled or "topic" in case.families
        requests //= SLOW_SHARE if slow else 1
        self.batches = max(1, requests // case.batch // SLICES)  # in a slice
        policies = [_ThrottleAll()] if case.throttled else []
        self.listeners: Listeners | None = None
        if case.parts is None:
            engine = make_engine(policies)
        else:
            options = {"slow_ms": SLOW_MS, "sample_every": case.sample_every}
            self.listeners = Listeners(
                policies, folder, case.families, case.parts, DELAY_MS, **options
            )
            self.listeners.start()
            engine = self.listeners.engine
        self._loop = SessionLoop(case.name, engine, case.batch, throttles=case.throttled)

    def close(self) -> None:
        if self.listeners is not None:
            self.listeners.close()

    def threads_ns(self) -> int:
        """Return the CPU time of the threads that encode and write, once they are idle."""
        listeners = self.listeners
        if listeners is None:
            return 0
        while listeners.busy:
            time.sleep(REST_S)
        clocks = [time.pthread_getcpuclockid(ident) for ident in listeners.threads]
        return sum(time.clock_gettime_ns(clock) for clock in clocks)

    def go(self) -> int:
        """Run one slice; return the nanoseconds of this thread."""
        return self._loop.run(self.batches, time.thread_time_ns, self._per_ms)


def _round(runs: list[_Run], first: int) -> list[Taken]:
    """Run all cases slice by slice, beginning with `first`."""
    began = [run.threads_ns() for run in runs]
    loop_ns = [0] * len(runs)
    order = [*range(first, len(runs)), *range(first)]  # no case always follows the same other
    gc.collect()
    gc.disable()
    for _ in range(SLICES):
        for place in order:
            loop_ns[place] += runs[place].go()
    gc.enable()
    rows = []
    for run, own_ns, threads_ns in zip(runs, loop_ns, began, strict=True):
        count = SLICES * run.batches * run.case.batch * 1000
        all_ns = own_ns + run.threads_ns() - threads_ns
        rows.append(Taken(own_ns / count, all_ns / count))
    return rows


def measure(folder: Path, rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Measure every case; return the costs in the order of CASES."""
    runs = [_Run(case, folder / str(place), requests) for place, case in enumerate(CASES)]
    try:
        _round(runs, 0)  # makes the plans and warms the caches
        found = [_round(runs, number % len(runs)) for number in range(rounds)]
    finally:
        for run in runs:
            run.close()
    taken = {case.name: own for case, own in zip(CASES, zip(*found, strict=True), strict=True)}
    rows = []
    for case in CASES:
        own = spread(one.loop_us for one in taken[case.name])
        if not case.yardstick:
            rows.append(Cost(case.name, own, None, None))
            continue
        pairs = list(zip(taken[case.name], taken[case.yardstick], strict=True))
        loop = spread(ours.loop_us - base.loop_us for ours, base in pairs)
        whole = spread(ours.all_us - base.all_us for ours, base in pairs)
        rows.append(Cost(case.name, own, loop, whole, goal=case.goal))
    return rows


def measure_once(folder: Path, connections: int = CONNECTIONS, rows: int = MAX_KEYS) -> Once:
    """Measure what the loop does once a second and once a scrape, with so many connections and users."""
    listeners = Listeners([], folder, (), slow_ms=SLOW_MS)
    engine, metrics = listeners.engine, listeners.metrics
    for n in range(connections):
        session = engine.connect("127.0.0.1", n, None)
        assert session is not None
        session.from_client(bytearray(PRODUCE), 0, len(PRODUCE), engine.now_ms)
    zeros = (0,) * 9
    used = [UsageRow(0, f"user-{n}", "client", 3, 3, 0, 300, *zeros) for n in range(rows)]
    turn_ms = _ms(lambda: metrics.on_second(0, used), 1)
    metrics.collect()  # adds the pending rows
    collect_ms = _ms(metrics.collect)
    families = list(metrics.collect())
    render_ms = _ms(lambda: render(families, openmetrics=True))
    listeners.close()
    page = len(render(families, openmetrics=True))
    return Once(connections, rows, turn_ms, collect_ms, render_ms, page)


def _ms(call: Callable[[], object], tries: int = 5) -> float:
    """Return the median of the CPU time of this thread, in milliseconds."""
    taken = []
    for _ in range(tries):
        began = time.thread_time()
        call()
        taken.append((time.thread_time() - began) * 1000)
    return statistics.median(taken)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.telemetry", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each case")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests a round")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="for the page")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of RESULTS.md")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sluice-telemetry-") as name:
        costs = measure(Path(name), given.rounds, given.requests)
        once = measure_once(Path(name) / "once", given.connections)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.requests:,} requests",
        **describe(),
    }
    found = section(Found(costs, once, facts))
    print(found, end="\n\n")
    write_section(given.out, "telemetry", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
