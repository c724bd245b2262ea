"""`python -m bench.fairness`: bulk flows and one small client through one proxy; writes its section of RESULTS.md.

Each bulk flow is a separate load program, so that its bytes are known. The small client is open loop, so that a stall
counts for every request due meanwhile. All proxies run at once; each round takes them in shuffled order. A figure that
compares two variants is computed inside a round. A proxy that is not installed is left out.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.goals import Goal, goal_table, max_goal, tell
from bench.harness.command import options, prints_errors
from bench.harness.figures import spread
from bench.harness.machine import describe, today
from bench.harness.markdown import columns, facts_line, write_section
from bench.harness.processes import Program
from bench.measure import Bench, running_bench
from bench.peer_commands import installed_peers
from bench.shapes import MIB, Shape
from bench.variants import DIRECT, HAPROXY, NO_PROXY, RELAY, SLUICE, both_builds

COMPARED = (DIRECT, SLUICE, RELAY, HAPROXY)
SMALL = Shape("small", "100 B", 1, rate=200)
MAX_ADDED_MS = 20
"""The bound of the small client's p99 through Sluice minus that through HAProxy."""
METHOD = """\
Made by `make bench-fairness`. Each bulk flow is one connection. The small client sends 200 requests of 100 bytes a
second; its latency counts from the intended send time."""
MAX_APART = 0.30
"""The bound of a bulk flow's deviation from the mean of all, as a share of the mean."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run through one variant: latencies of the small client in ms, rates of the bulk flows in MB/s."""

    p50_ms: float
    p99_ms: float
    flows: tuple[float, ...]

    @property
    def total(self) -> float:
        """Return the MB/s of all bulk flows together."""
        return sum(self.flows)

    @property
    def apart(self) -> float:
        """Return the largest deviation of a bulk flow from the mean, as a share of the mean; 1 without bytes."""
        mean = self.total / len(self.flows)
        return max(abs(flow - mean) for flow in self.flows) / mean if mean else 1.0


@dataclass(slots=True)
class Found:
    """Rounds by variant; the n-th of each ran in the same round."""

    rounds: dict[str, list[Round]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def yardstick(self) -> str:
        """Return HAProxy if it is installed, else `direct`."""
        return HAPROXY if HAPROXY in self.rounds else DIRECT

    def added_ms(self) -> list[float]:
        """Return the small client's p99 through Sluice minus that of the yardstick, ms, for each round."""
        pairs = zip(self.rounds[SLUICE], self.rounds[self.yardstick], strict=True)
        return [ours.p99_ms - theirs.p99_ms for ours, theirs in pairs]


def measure(bulk: Shape, flows: int, rounds: int, seconds: float, seed: int = 1) -> Found:
    """Run each variant `rounds` times with `flows` bulk flows of this shape and the small client."""
    with running_bench() as bench:
        known = [NO_PROXY, *both_builds(None), *installed_peers(bench.programs["relay"], [])]
        variants = [each for each in known if each.name in COMPARED]
        found = Found(versions={variant.name: variant.version for variant in variants})
        for _, _, proxy in bench.rounds(variants, [bulk], rounds, seed):
            one = _run(bench, bulk, proxy.port, flows, seconds)
            found.rounds.setdefault(proxy.name, []).append(one)
    return found


def _run(bench: Bench, bulk: Shape, port: int, flows: int, seconds: float) -> Round:
    """Run once; the bulk flows begin before the small client and end after it."""
    warm = 0.2
    with contextlib.ExitStack() as stack:

        def begin(shape: Shape, seconds: float) -> Program:
            load = bench.start_load(shape, port, seconds, warm)
            stack.callback(load.stop)
            return load

        loads = [begin(bulk, seconds + 1.0) for _ in range(flows)]
        small = begin(SMALL, seconds)
        for load in (*loads, small):
            load.line(60)
        for load in (*loads, small):
            load.say("go\n")
        said = json.loads(small.line(seconds + 60))
        told = [json.loads(load.line(seconds + 60)) for load in loads]
    return Round(
        said["p50_us"] / 1000,
        said["p99_us"] / 1000,
        tuple(each["bytes"] / each["seconds"] / 1e6 for each in told),
    )


def section(found: Found, facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""

    def of(what: Callable[[Round], float], digits: int) -> Callable[[str], str]:
        return lambda name: spread(map(what, found.rounds[name])).text(digits)

    parts = [
        "## Bulk flows and a small client",
        METHOD,
        goal_table(goals(found)),
        columns(
            found.rounds,
            [
                ("", str),
                ("small p50 ms", of(lambda each: each.p50_ms, 2)),
                ("small p99 ms", of(lambda each: each.p99_ms, 2)),
                ("bulk MB/s, all flows", of(lambda each: each.total, 0)),
                ("slowest flow MB/s", of(lambda each: min(each.flows), 1)),
                ("fastest flow MB/s", of(lambda each: max(each.flows), 1)),
                ("largest deviation from the mean, %", of(lambda each: 100 * each.apart, 0)),
            ],
        ),
        facts_line({**facts, **found.versions}),
    ]
    return "\n\n".join(parts)


def goals(found: Found) -> list[Goal]:
    """Return both goals."""
    apart = spread(100 * each.apart for each in found.rounds[SLUICE])
    return [
        max_goal(
            f"the small client's p99 through Sluice minus {found.yardstick}",
            "ms",
            spread(found.added_ms()),
            MAX_ADDED_MS,
        ),
        max_goal("largest deviation of a bulk flow through Sluice", "%", apart, 100 * MAX_APART, 0),
    ]


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if a goal is not met (by the median over the rounds)."""
    numbers = {"flows": 30, "value_bytes": MIB, "rounds": 5, "seconds": 5.0}
    parser = options("bench.fairness", __doc__, **numbers)
    given = parser.parse_args(arguments)
    bulk = Shape("bulk", "bulk", 1, depth=2, value_bytes=given.value_bytes)
    before = os.getloadavg()[0]
    found = measure(bulk, given.flows, given.rounds, given.seconds)
    facts = {
        **describe(),
        "load average before": f"{before:.1f}",
        "date": today(),
        "load": f"{given.flows} flows of produce with {given.value_bytes} bytes, two in flight each",
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
    }
    write_section(given.out, "fairness", section(found, facts))
    tell(goals(found))
    return 0 if all(goal.met for goal in goals(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
