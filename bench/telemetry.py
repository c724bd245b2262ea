"""`python -m bench.telemetry`: what it costs to count, to keep and to tell; writes its section of bench/RESULTS.md.

Rules: the method of `bench.path`: a Produce v9 and its reply through one session in one process, without a socket; what
compares two cases is taken inside each round, then the median over rounds. *On the loop* is the CPU time of the
thread that forwards; *in all* is the whole process's, with the threads that write and encode come to rest. The
clock is turned by hand, a millisecond a batch: 16,000 requests are a second, and pay for what happens once in it.
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
from policies.api import Excess, Peer, Policy, Throttle
from policies.testing import BenchHost
from proxy.core.usage import KEYS_MOST, UsageRow
from proxy.telemetry.metrics.page import render
from tests.support.sessions import make_engine
from tests.support.telemetry import Listeners
from tests.support.throttled import produce9, produce9_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Request

BATCH = 16
REQUESTS = 16_000
ROUNDS = 15
SLOW_MS = 1000
REST_S = 0.02
CONNECTIONS = 5000
WHY = Excess("user=bench", "request_rate", 120.0, 100.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to listen. `families` of usage records; None: nobody listens at all."""

    name: str
    yardstick: str = ""
    counted: bool = True
    families: tuple[str, ...] | None = None
    sample_every: int = 0
    throttled: bool = False


NOTHING = "nothing counted, nobody listens"
QUIET = "each request throttled, nobody listens"
ALL = "all of it: also usage records (entity, api, instance)"
CASES = (
    Case(NOTHING, counted=False),
    Case("counted, nobody listens", NOTHING),
    Case("metrics, traces, decisions, log", NOTHING, families=()),
    Case("the same, one in 100 sampled for a trace", NOTHING, families=(), sample_every=100),
    Case(
        "the same, and usage records (entity, instance)", NOTHING, families=("entity", "instance")
    ),
    Case(ALL, NOTHING, families=("entity", "api", "instance")),
    Case(QUIET, throttled=True),
    Case(
        "each request throttled, told to all of them",
        QUIET,
        families=("entity", "api", "instance"),
        throttled=True,
    ),
)


class Taken(NamedTuple):
    """Microseconds of CPU a request and its reply."""

    loop_us: float
    all_us: float


class _Always(Policy):
    """Throttles each request by a millisecond, and hears of nothing else."""

    Config = dict
    hears = frozenset()

    def __init__(self) -> None:
        super().__init__({}, BenchHost())

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Throttle:
        return Throttle(1, why=WHY)


class _Run:
    def __init__(self, case: Case, folder: Path, requests: int) -> None:
        self.case = case
        self.batch = 1 if case.throttled else BATCH
        self.batches = requests // self.batch
        policies = [_Always()] if case.throttled else []
        options = {"slow_ms": SLOW_MS, "sample_every": case.sample_every}
        self.listeners: Listeners | None = None
        if case.families is None:
            engine = make_engine(policies)
        else:
            self.listeners = Listeners(policies, folder, case.families, **options)
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

    def go(self) -> Taken:
        """One round."""
        session, engine = self.session, self.engine
        requests, replies = self.requests, self.replies
        size, answer, now_ms = len(requests), len(replies), self.now_ms
        muted = 0
        gc.collect()
        gc.disable()
        begun, begun_all = time.thread_time_ns(), time.process_time_ns()
        for _ in range(self.batches):
            now_ms += 1
            engine.advance(now_ms)
            sent = session.from_client(requests, 0, size, now_ms)
            muted |= session.client.muted
            left = session.from_broker(replies, 0, answer, now_ms)
            if sent != size or left != answer:
                break  # something was kept, which nobody has asked for
            if engine.attending:
                engine.attending.clear()
        taken_ns = time.thread_time_ns() - begun
        if self.listeners is not None:
            _rest()
        all_ns = time.process_time_ns() - begun_all
        gc.enable()
        self.now_ms = now_ms
        if session.ended or session.queue or bool(muted) != self.case.throttled:
            raise RuntimeError(f"{self.case.name}: this is not what was to be measured")
        count = self.batches * self.batch
        return Taken(taken_ns / 1000 / count, all_ns / 1000 / count)


def measure(folder: Path, rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Every case, in the order of CASES."""
    runs = [_Run(case, folder / str(place), requests) for place, case in enumerate(CASES)]
    taken: dict[str, list[Taken]] = {case.name: [] for case in CASES}
    try:
        for run in runs:
            run.go()  # plans are made, caches are warm
        for _ in range(rounds):
            for run in runs:
                taken[run.case.name].append(run.go())
    finally:
        for run in runs:
            run.close()
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
            )
        )
    return rows


def measure_once(folder: Path, connections: int = CONNECTIONS, rows: int = KEYS_MOST) -> Once:
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
    families = metrics.collect()
    render_ms = _ms(lambda: render(families, openmetrics=True))
    listeners.tracer.close()
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


def _rest() -> None:
    """Until the other threads have nothing to do."""
    while True:
        begun = time.process_time_ns()
        time.sleep(REST_S)
        if time.process_time_ns() - begun < 500_000:
            return


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
    file.write_text(put_section(text, "telemetry", section(Found(costs, once, facts))))
    print(f"written: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
