"""`python -m bench.telemetry`: the CPU cost of telemetry; writes its section of bench/RESULTS.md.

The method is that of `bench.in_process`. *On the loop* is the CPU time of the thread that forwards; *in all* adds
the threads that encode and write, once they are idle. The session's clock advances by a millisecond for 16 requests:
16,000 requests are a second and include what happens once a second.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness.command import options
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, facts_table, table, write_section
from bench.in_process import BATCH, PRODUCE, REQUESTS, Cost, SessionLoop
from bench.in_process import measure as measure_all
from policies.api import Peer, Policy, QuotaViolation, Request, Throttle
from policies.testing import BenchHost
from proxy.core.stats.usage import MAX_KEYS, UsageRow
from proxy.telemetry.metrics.exposition import render
from proxy.telemetry.traces import batch_processor
from tests.support.core.sessions import make_engine
from tests.support.telemetry.telemetry import PARTS, Listeners

GOAL_US: Final = 0.5
METHOD: Final = """\
Made by `make bench-telemetry`: one session in one process, without sockets or kernel; a small Produce and its reply,
16 in a read unless stated otherwise. *Added* is relative to the row of the same kind without listeners. *In all*
includes the threads that encode and write; the goal applies to it."""
ONCE: Final = """\
The work of the loop once a second and once a scrape, with {connections:,} connections that have a request in flight
each, and {rows:,} users in a second. The page is rendered off the loop."""
ROUNDS: Final = 25
SLOW_SHARE: Final = 10
"""Throttled and walked requests cost many times an ordinary one; their cases have this many times fewer."""
SAMPLE_EVERY: Final = 1000
SLOW_MS: Final = 1000
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
    ),
    Case(ALONE, batch=1),
    Case("one request a read: " + ALL, ALONE, PARTS, FAMILIES, SAMPLE_EVERY, batch=1),
    Case(QUIET, batch=1, throttled=True),
    Case(
        "each request throttled: all of them",
        *(QUIET, PARTS, FAMILIES),
        batch=1,
        throttled=True,
    ),
)
WITHOUT_GOAL: Final = {case.name for case in CASES if case.throttled or "topic" in case.families}
"""The goal applies to ordinary requests, with what is on by default."""


@dataclass(frozen=True, slots=True)
class Once:
    """Costs that do not depend on the number of requests: milliseconds of CPU, and bytes."""

    connections: int
    rows: int
    turn_ms: float
    collect_ms: float
    render_ms: float
    page_bytes: int


class _ThrottleAll(Policy):
    """Throttles each request by a millisecond; it is not called for replies."""

    Config = dict
    response_apis = frozenset()

    def __init__(self) -> None:
        super().__init__({}, BenchHost())

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Throttle:
        return Throttle(1, why=VIOLATION)


def measure(folder: Path, rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Measure every case; return the costs in the order of CASES."""
    with ExitStack() as stack:
        loops = [
            _loop(case, folder / str(place), requests, stack) for place, case in enumerate(CASES)
        ]
        return measure_all(loops, rounds)


def _loop(case: Case, folder: Path, requests: int, stack: ExitStack) -> SessionLoop:
    policies = [_ThrottleAll()] if case.throttled else []
    threads_ns: Callable[[], int] = lambda: 0  # noqa: E731 - the other branch makes one, too
    if case.parts is None:
        engine = make_engine(policies)
    else:
        options = {"slow_ms": SLOW_MS, "sample_every": case.sample_every}
        listeners = Listeners(policies, folder, case.families, case.parts, DELAY_MS, **options)
        listeners.start()
        stack.callback(listeners.close)
        engine, threads_ns = listeners.engine, partial(_threads_ns, listeners)
    is_slow = case.throttled or "topic" in case.families
    return SessionLoop(
        case.name,
        engine,
        case.yardstick,
        requests=requests // (SLOW_SHARE if is_slow else 1),
        batch=case.batch,
        per_ms=1
        if case.throttled
        else BATCH // case.batch,  # a throttle of 1 ms ends with the next
        throttles=case.throttled,
        threads_ns=threads_ns,
    )


def _threads_ns(listeners: Listeners) -> int:
    """Return the CPU time of the threads that encode and write, once they are idle."""
    while listeners.busy:
        time.sleep(REST_S)
    clocks = [time.pthread_getcpuclockid(ident) for ident in listeners.threads]
    return sum(time.clock_gettime_ns(clock) for clock in clocks)


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


def section(costs: list[Cost], once: Once, facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md; a goal that was not met is marked."""
    parts = [
        "## The cost of telemetry",
        METHOD,
        table(
            ["", "µs on the loop", "added on the loop", "added in all", f"≤ {GOAL_US:g} µs"],
            [_row(cost) for cost in costs],
        ),
        ONCE.format(connections=once.connections, rows=once.rows),
        facts_table(
            {
                "a second's rows, first turn (the others follow in later turns)": (
                    f"{once.turn_ms:.2f} ms"
                ),
                "collect a page": f"{once.collect_ms:.1f} ms",
                "render it": f"{once.render_ms:.1f} ms",
                "the page": f"{once.page_bytes / 1024:,.0f} KiB",
            }
        ),
        facts_line(facts),
    ]
    return "\n\n".join(parts)


def _row(cost: Cost) -> list[str]:
    if cost.added is None or cost.added_in_all is None:
        return [cost.name, cost.own.text(2), "", "", ""]
    verdict = "met" if cost.added_in_all.median <= GOAL_US else "**NOT MET**"
    figures = (cost.own, cost.added, cost.added_in_all)
    verdict = "" if cost.name in WITHOUT_GOAL else verdict
    return [cost.name, *(figure.text(2) for figure in figures), verdict]


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    numbers = {"rounds": ROUNDS, "requests": REQUESTS, "connections": CONNECTIONS}
    given = options("bench.telemetry", __doc__, **numbers).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sluice-telemetry-") as name:
        costs = measure(Path(name), given.rounds, given.requests)
        once = measure_once(Path(name) / "once", given.connections)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.requests:,} requests",
        **describe(),
    }
    found = section(costs, once, facts)
    print(found, end="\n\n")
    write_section(given.out, "telemetry", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
