"""`python -m bench.path`: the quota path in both builds, in one run; writes its section of RESULTS.md.

Each round measures every case in a process of the source and in one of the compiled build, in alternating order
(`bench.in_process`). Figures are medians over the rounds; a ratio is taken inside each round. Without Cython only the
source is measured.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from bench.goals import Goal, goal_table, tell
from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.figures import Spread, maybe_spread
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table, write_section
from bench.in_process import BATCH, REQUESTS, Cost, SessionLoop
from bench.in_process import measure as measure_all
from policies.chain import Chain
from policies.entry_host import ProxyServices
from policies.registry import PolicyEntry, build
from policies.testing import BenchHost, BenchReporter
from proxy.cli import builds
from proxy.core.engine import Engine
from proxy.core.observer import Observer
from proxy.core.session.engine_options import EngineOptions
from proxy.core.topology import Topology

PURE: Final = "pure"
COMPILED: Final = "compiled"
WORKER_ROUNDS: Final = 7
"""Rounds of one process."""
Medians = Mapping[str, tuple[float, float | None]]
"""Case to its CPU and what it adds, in µs: the medians of one process."""
METHOD: Final = """\
Made by `python -m bench.path`: CPU µs of a request and its reply in one process, without sockets, of both builds in
alternating processes. Medians over the processes with their least and greatest. *Adds* is relative to no policy, in the
same process; the ratio is taken inside each round. A mute begins with early bytes, if the event loop can tell them:
one row has none, so no timer and no mute; the other mutes at once, as with TLS, with traces, or across seconds."""
WORKER: Final = "--one-build"
UNREACHED: Final = {"user": "<default>", "request_rate": 1e9}
"""A limit that no client reaches."""
TWO_UNREACHED: Final = {**UNREACHED, "producer_byte_rate": 1e12}
REACHED: Final = {"user": "<default>", "request_rate": 1000.0}


@dataclass(frozen=True, slots=True)
class Case:
    """One set-up of the policy chain. The clock advances by a millisecond before each batch."""

    name: str
    quotas: tuple[dict[str, object], ...] = ()
    enforcement: str = "entity"
    batch: int = BATCH
    burst_seconds: float = 2.0
    """With 0, and a request each millisecond of a quota of 1,000/s, each request is throttled for a millisecond."""
    defers: bool = True
    """As the event loop does for a client without TLS: a mute begins with early bytes, and there are none."""

    @property
    def throttles(self) -> bool:
        """Whether each request is throttled."""
        return not self.burst_seconds


UNTHROTTLED: Final = "request_rate, no throttling"
TWO_LIMITS: Final = "request_rate and producer_byte_rate, no throttling"
THROTTLED: Final = "each request throttled, the next sent when it may be, one at a time"
MUTED: Final = "each request throttled, its channel muted and unmuted by a timer, one at a time"
NOTHING: Final = Case("no policy")
ALONE: Final = Case("no policy, one request at a time", batch=1)
CASES: Final = (
    NOTHING,
    Case(
        "a quota that does not apply to this API",
        ({"user": "<default>", "consumer_byte_rate": 1e9},),
    ),
    Case(UNTHROTTLED, (UNREACHED,)),
    Case(
        TWO_LIMITS,
        (TWO_UNREACHED,),
    ),
    Case("request_rate, no throttling, enforcement: channel", (UNREACHED,), "channel"),
    ALONE,
    Case(THROTTLED, (REACHED,), batch=1, burst_seconds=0.0),
    Case(MUTED, (REACHED,), batch=1, burst_seconds=0.0, defers=False),
)


class _Host(BenchHost):
    """Gives the policies the engine's clock and timers."""

    engine: Engine

    def wake(self, key: Hashable) -> int:
        return self.engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.engine.timers.arm(at_ms, call)

    def reconsider(self) -> None:
        self.engine.reconsider()


def measure(rounds: int, requests: int = REQUESTS) -> list[Cost]:
    """Measure every case; return the costs in the order of CASES.

    Raises:
        RuntimeError: a policy failed or refused a request.
    """
    reporter = BenchReporter()
    costs = measure_all([_loop(case, requests, reporter) for case in CASES], rounds)
    if reporter.errors or reporter.observed or reporter.refused:
        raise RuntimeError("a policy failed or refused a request")
    return costs


def quota_engine(
    config: dict[str, object] | None, reporter: BenchReporter, options: EngineOptions | None = None
) -> Engine:
    """Return an engine with the policy `quota`, or without one; its errors and refusals go to the reporter."""
    host = _Host()
    use = [] if config is None else [PolicyEntry(use="quota", config=config)]
    chain = Chain(build(use, cast("ProxyServices", host)), reporter)
    host.engine = Engine(Topology("127.0.0.1", 19092, {}, Observer()), chain, Observer(), options)
    return host.engine


def _loop(case: Case, requests: int, reporter: BenchReporter) -> SessionLoop:
    config: dict[str, object] = {
        "enforcement": case.enforcement,
        "quotas": list(case.quotas),
        "burst_seconds": case.burst_seconds,
    }
    engine = quota_engine(config if case.quotas else None, reporter)
    engine.try_expect_early = lambda _: case.defers
    yardstick = (NOTHING if case.batch == BATCH else ALONE).name if case.quotas else ""
    return SessionLoop(
        case.name,
        engine,
        yardstick,
        requests=requests,
        batch=case.batch,
        throttles=case.throttles,
    )


def report_json(costs: Sequence[Cost]) -> str:
    """Return the build and the medians in µs of these costs by case, as `run_build` reads them."""
    medians = {
        cost.name: [cost.own.median, None if cost.added is None else cost.added.median]
        for cost in costs
    }
    return json.dumps({"build": builds.running(), "costs": medians})


class Found:
    """The figures of all rounds."""

    def __init__(self) -> None:
        self.rounds: list[dict[str, Medians]] = []

    def own(self, build: str, case: str) -> Spread | None:
        """Return the CPU of a request and its reply in µs."""
        return maybe_spread(each[build][case][0] for each in self.rounds if build in each)

    def added(self, build: str, case: str) -> Spread | None:
        """Return the CPU that the case adds in µs; None for a yardstick."""
        found = (each[build][case][1] for each in self.rounds if build in each)
        return maybe_spread(each for each in found if each is not None)

    def ratio(self, case: str) -> Spread | None:
        """Return the CPU of the compiled build by that of the source."""
        return maybe_spread(
            each[COMPILED][case][0] / each[PURE][case][0]
            for each in self.rounds
            if COMPILED in each
        )


def goals(found: Found) -> list[Goal]:
    """Return the goals of the quota path with their measurements."""
    adds = "a quota adds, compiled"
    lines = [
        (f"{adds}: {UNTHROTTLED}", COMPILED, UNTHROTTLED, 0.2, 0.1),
        (f"{adds}: {TWO_LIMITS}", COMPILED, TWO_LIMITS, 0.2, 0.1),
        (f"{adds}: {THROTTLED}", COMPILED, THROTTLED, 3.0, 1.0),
        (f"{adds}: {MUTED}", COMPILED, MUTED, 3.0, 1.0),
        (f"a quota adds, pure: {THROTTLED}", PURE, THROTTLED, 4.0, None),
    ]
    return [
        Goal(what, "µs", found.added(build, case), must, at_least=False, aim=aim)
        for what, build, case, must, aim in lines
    ]


def section(found: Found, facts: Mapping[str, str]) -> str:
    """Return the section of RESULTS.md."""
    heads = ["", "pure", "pure adds", "compiled", "compiled adds", "compiled / pure"]
    rows = [
        [
            case.name,
            _text(found.own(PURE, case.name)),
            _text(found.added(PURE, case.name)),
            _text(found.own(COMPILED, case.name)),
            _text(found.added(COMPILED, case.name)),
            _text(found.ratio(case.name)),
        ]
        for case in CASES
    ]
    parts = ["## The quota path", METHOD, goal_table(goals(found)), table(heads, rows)]
    return "\n\n".join([*parts, facts_line(facts)])


def run_build(build: str, folder: Path | None, rounds: int = WORKER_ROUNDS) -> Medians:
    """Run `bench.path` in a process that imports the modules of `folder` (None: the source); return its medians.

    Raises:
        BenchError: it failed, or ran another build.
    """
    paths = [str(ROOT)] if folder is None else [str(folder), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bench.path", WORKER, str(rounds)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"bench.path, {build}: {done.stderr.strip()[-500:]}")
    said = json.loads(done.stdout)
    if said["build"] != build:
        raise BenchError(f"bench.path ran the {said['build']} build, expected {build}")
    return {case: (own, added) for case, (own, added) in said["costs"].items()}


def measure_builds(folder: Path | None, rounds: int) -> Found:
    """Measure both builds in alternating order; only the source if `folder` is None."""
    found = Found()
    folders = {PURE: None} if folder is None else {PURE: None, COMPILED: folder}
    for number in range(rounds):
        order = list(folders) if number % 2 else list(folders)[::-1]
        found.rounds.append({build: run_build(build, folders[build]) for build in order})
    return found


def _text(found: Spread | None) -> str:
    return "" if found is None else found.text(2)


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure, write and print; return the exit code."""
    parser = options("bench.path", __doc__, rounds=9)
    given = parser.parse_args(arguments)
    reason = missing()
    with tempfile.TemporaryDirectory(prefix="sluice-path-") as parent:
        folder = None if reason else Path(parent) / "wheel"
        if folder is not None:
            unpack_compiled(folder)
        found = measure_builds(folder, given.rounds)
    facts = {"date": today(), "rounds": f"{given.rounds}", **describe()}
    if reason:
        facts["not compiled"] = reason
    text = section(found, facts)
    write_section(given.out, "quotapath", text)
    print(text)
    tell(goals(found))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        print(report_json(measure(int(sys.argv[2]))))
    else:
        sys.exit(main())
