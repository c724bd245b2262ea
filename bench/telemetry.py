"""`python -m bench.telemetry`: what it costs to count, to keep and to tell; writes its section of bench/RESULTS.md.

Rules: the method of `bench.path`: a Produce v9 and its reply through one session in one process, without a socket; what
compares two cases is taken inside each round, then the median over rounds. *On the loop* is the CPU time of the
thread that forwards; *in all* has that of the threads that write and encode, come to rest. A round is made of slices of
a few milliseconds, in which all cases take turns, so that a machine that is slow for a while is so for all of them. The
clock is turned by hand, a millisecond for 16 requests: 16,000 are a second, and pay for what happens once in it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.build import HERE
from bench.figures import Spread, spread
from bench.machine import describe
from bench.section import put_section
from bench.telemetry_report import Cost, Found, Once, section
from bench.uncounted import uncounted
from policies.api import Peer, Policy, QuotaViolation, Throttle
from policies.testing import BenchHost
from proxy.core.usage import MAX_KEYS, UsageRow
from proxy.telemetry.metrics.page import render
from proxy.telemetry.traces import worker
from tests.support.sessions import make_engine
from tests.support.telemetry import PARTS, Listeners
from tests.support.throttled import produce9, produce9_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Request

BATCH = 16
REQUESTS = 16_000
ROUNDS = 25
SLOW_SHARE = 10
"""What is throttled or walked costs many times an ordinary request; so many times fewer are enough."""
SAMPLE_EVERY = 1000
SLOW_MS = 1000
SLICES = 20
REST_S = 0.005
DELAY_MS = worker.DELAY_MS
"""As a running proxy gathers spans."""
CONNECTIONS = 5000
WHY = QuotaViolation("user=bench", "request_rate", 120.0, 100.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to listen: `parts` as `Listeners` knows them, None: nobody does; `families` of the usage log."""

    name: str
    yardstick: str = ""
    counted: bool = True
    parts: tuple[str, ...] | None = None
    families: tuple[str, ...] = ()
    sample_every: int = 0
    batch: int = BATCH
    throttled: bool = False
    metrics: int = 0
    """How many metrics what is added is shared by, where nothing else is."""
    goal: bool = True
    """Whether the goal is this row's, too: an ordinary request's, with what is on by default."""

    @property
    def slow(self) -> bool:
        """Whether fewer requests are enough."""
        return self.throttled or "topic" in self.families


FAMILIES = ("entity", "api", "instance")
METRICS = 4
"""What the fast loops count of an ordinary request: requests, bytes both ways, and its place in the latency's
histogram."""
NOTHING = "nothing counted, nobody listens"
COUNTED = "counted, nobody listens"
ALL = "all of them, with the log and what the dashboard shows"
ALONE = "one request a read: nothing counted, nobody listens"
QUIET = "each request throttled, nobody listens"
CASES = (
    Case(NOTHING, counted=False),
    Case(COUNTED, NOTHING, metrics=METRICS),
    Case("metrics", NOTHING, parts=("metrics",)),
    Case("usage log (entity, api, instance)", NOTHING, parts=(), families=FAMILIES),
    Case("traces, one in 1,000 sampled", NOTHING, parts=("traces",), sample_every=SAMPLE_EVERY),
    Case(ALL, NOTHING, parts=PARTS, families=FAMILIES, sample_every=SAMPLE_EVERY),
    Case(
        "usage log by topic (reads bodies; off by default)",
        NOTHING,
        parts=(),
        families=("topic",),
        goal=False,
    ),
    Case(ALONE, counted=False, batch=1),
    Case(
        "one request a read: " + ALL,
        ALONE,
        parts=PARTS,
        families=FAMILIES,
        sample_every=SAMPLE_EVERY,
        batch=1,
    ),
    Case(QUIET, batch=1, throttled=True),
    Case(
        "each request throttled, told to all of them",
        QUIET,
        parts=PARTS,
        families=FAMILIES,
        batch=1,
        throttled=True,
        goal=False,
    ),
)


class Taken(NamedTuple):
    """Microseconds of CPU a request and its reply."""

    loop_us: float
    all_us: float


class _Always(Policy):
    """Throttles each request by a millisecond, and hears of nothing else."""

    Config = dict
    response_apis = frozenset()

    def __init__(self) -> None:
        super().__init__({}, BenchHost())

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Throttle:
        return Throttle(1, why=WHY)


class _Run:
    def __init__(self, case: Case, folder: Path, requests: int) -> None:
        self.case = case
        self.batch = case.batch
        self.every = BATCH // self.batch  # reads a millisecond
        if case.slow:
            requests //= SLOW_SHARE
        if case.throttled:  # a millisecond each: it is over with the next
            self.every = 1
        self.batches = max(1, requests // self.batch // SLICES)  # a slice
        policies = [_Always()] if case.throttled else []
        options = {"slow_ms": SLOW_MS, "sample_every": case.sample_every}
        self.listeners: Listeners | None = None
        if case.parts is None:
            engine = make_engine(policies)
        else:
            self.listeners = Listeners(
                policies, folder, case.families, case.parts, DELAY_MS, **options
            )
            self.listeners.start()
            engine = self.listeners.engine
        self.engine = engine
        if case.counted:
            session = engine.connect("127.0.0.1", 40000, None)
            assert session is not None
        else:
            session = uncounted()(engine, Peer(1, "127.0.0.1", 40000))
            engine.sessions.add(session)
        self.session = session
        self.requests = bytearray(produce9(7) * self.batch)
        self.replies = bytearray(produce9_reply(7) * self.batch)
        self.now_ms = 1000

    def close(self) -> None:
        if self.listeners is not None:
            self.listeners.close()

    def threads_ns(self) -> int:
        """CPU time of the threads that write and encode, once they have nothing to do."""
        listeners = self.listeners
        if listeners is None:
            return 0
        while listeners.busy:
            time.sleep(REST_S)
        clocks = [time.pthread_getcpuclockid(ident) for ident in listeners.threads]
        return sum(time.clock_gettime_ns(clock) for clock in clocks)

    def go(self) -> int:
        """One slice: the nanoseconds that this thread has worked for it."""
        session, engine = self.session, self.engine
        requests, replies = self.requests, self.replies
        size, answer, now_ms = len(requests), len(replies), self.now_ms
        muted, every = 0, self.every
        begun = time.thread_time_ns()
        for turn in range(self.batches):
            now_ms += turn % every == 0
            engine.advance(now_ms)
            sent = session.from_client(requests, 0, size, now_ms)
            muted |= session.client.muted
            left = session.from_broker(replies, 0, answer, now_ms)
            if sent != size or left != answer:
                break  # something was kept, which nobody has asked for
            while engine.ready:
                engine.ready.popleft().ready = False
        taken_ns = time.thread_time_ns() - begun
        self.now_ms = now_ms
        if session.ended or session.queue or bool(muted) != self.case.throttled:
            raise RuntimeError(f"{self.case.name}: this is not what was to be measured")
        return taken_ns


def _round(runs: list[_Run], first: int) -> list[Taken]:
    """All cases, slice by slice; `first` begins."""
    begun = [run.threads_ns() for run in runs]
    loop_ns = [0] * len(runs)
    order = [*range(first, len(runs)), *range(first)]  # nobody always has the same forerunner
    gc.collect()
    gc.disable()
    for _ in range(SLICES):
        for place in order:
            loop_ns[place] += runs[place].go()
    gc.enable()
    rows = []
    for run, own_ns, threads_ns in zip(runs, loop_ns, begun, strict=True):
        count = SLICES * run.batches * run.batch * 1000
        all_ns = own_ns + run.threads_ns() - threads_ns
        rows.append(Taken(own_ns / count, all_ns / count))
    return rows


def measure(folder: Path, rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Every case, in the order of CASES."""
    runs = [_Run(case, folder / str(place), requests) for place, case in enumerate(CASES)]
    try:
        _round(runs, 0)  # plans are made, caches are warm
        found = [_round(runs, number % len(runs)) for number in range(rounds)]
    finally:
        for run in runs:
            run.close()
    taken = {
        case.name: list(own) for case, own in zip(CASES, zip(*found, strict=True), strict=True)
    }
    rows = []
    for case in CASES:
        own = taken[case.name]
        base = taken[case.yardstick] if case.yardstick else None
        rows.append(
            Cost(
                case.name,
                _spread([one.loop_us for one in own]),
                base and _spread([a.loop_us - b.loop_us for a, b in zip(own, base, strict=True)]),
                base and _spread([a.all_us - b.all_us for a, b in zip(own, base, strict=True)]),
                metrics=case.metrics,
                goal=case.goal,
            )
        )
    return rows


def measure_once(folder: Path, connections: int = CONNECTIONS, rows: int = MAX_KEYS) -> Once:
    """What the loop pays once a second, and once a scrape: thousands of connections, as many users."""
    listeners = Listeners([], folder, (), slow_ms=SLOW_MS)
    engine, metrics = listeners.engine, listeners.metrics
    for n in range(connections):
        session = engine.connect("127.0.0.1", n, None)
        assert session is not None
        ask = bytearray(produce9(n))
        session.from_client(ask, 0, len(ask), engine.now_ms)
    zeros = (0,) * 9
    used = [UsageRow(0, f"user-{n}", "client", 3, 3, 0, 300, *zeros) for n in range(rows)]
    turn_ms = _ms(lambda: metrics.on_second(0, used), 1)
    metrics.collect()  # folds in what waits
    collect_ms = _ms(metrics.collect)
    families = list(metrics.collect())
    render_ms = _ms(lambda: render(families, openmetrics=True))
    listeners.close()
    page = len(render(families, openmetrics=True))
    return Once(connections, rows, turn_ms, collect_ms, render_ms, page)


def _ms(call: Callable[[], object], tries: int = 5) -> float:
    """Milliseconds of CPU on this thread, the median of a few."""
    taken = []
    for _ in range(tries):
        begun = time.thread_time()
        call()
        taken.append((time.thread_time() - begun) * 1000)
    return statistics.median(taken)


def _spread(values: list[float]) -> Spread:
    found = spread(values)
    assert found is not None
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measures and writes; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.telemetry", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each case is run")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests a round")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="for the page")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of RESULTS.md")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sluice-telemetry-") as name:
        costs = measure(Path(name), given.rounds, given.requests)
        once = measure_once(Path(name) / "once", given.connections)
    facts = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "rounds": f"{given.rounds} of {given.requests:,} requests",
        **describe(),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "RESULTS.md"
    text = file.read_text() if file.exists() else ""
    found = section(Found(costs, once, facts))
    file.write_text(put_section(text, "telemetry", found))
    print(f"{found}\n\nwritten: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
