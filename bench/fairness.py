"""`python -m bench.fairness`: bulk flows and one small client through one proxy; writes its section of RESULTS.md.

Rules: each bulk flow is a load program of its own, so that its bytes are known; the small client is open loop, so a
stall is not forgiven. All proxies are alive at once, and the rounds go through them in shuffled order. What compares
two variants is taken inside a round. Whoever is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.build import HERE, BenchError, build
from bench.figures import spread
from bench.machine import describe
from bench.measure import Bench
from bench.processes import raise_descriptor_limit
from bench.section import put_section
from bench.shapes import MIB, Shape
from bench.variants import DIRECT, HAPROXY, RELAY, SLUICE, installed

if TYPE_CHECKING:
    from bench.processes import Program

COMPARED = (DIRECT, SLUICE, RELAY, HAPROXY)
SMALL = Shape("small", "100 B", 1, rate=200)
MAX_ADDED_MS = 20
"""The goal: the small client's p99 through Sluice, minus that through HAProxy."""
COLUMNS = (
    "small p50 ms",
    "small p99 ms",
    "bulk MB/s, all flows",
    "slowest flow MB/s",
    "fastest flow MB/s",
    "farthest from the mean",
)
MAX_APART = 0.30
"""The goal: how far a bulk flow may be from the mean of all."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run through one variant: milliseconds of the small client, MB/s of each bulk flow."""

    p50_ms: float
    p99_ms: float
    flows: tuple[float, ...]

    @property
    def total(self) -> float:
        """MB/s of all bulk flows."""
        return sum(self.flows)

    @property
    def apart(self) -> float:
        """How far the flow that is farthest from the mean is from it, as a part of the mean."""
        mean = self.total / len(self.flows)
        return max(abs(flow - mean) for flow in self.flows) / mean if mean else 1.0


@dataclass(slots=True)
class Found:
    """Rounds by variant, in step: the n-th of each belong together."""

    rounds: dict[str, list[Round]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def yardstick(self) -> str:
        """HAProxy where it is installed, else nothing in between."""
        return HAPROXY if HAPROXY in self.rounds else DIRECT

    def added_ms(self) -> list[float]:
        """The small client's p99 through Sluice minus that of the yardstick, round by round."""
        pairs = zip(self.rounds[SLUICE], self.rounds[self.yardstick], strict=True)
        return [ours.p99_ms - theirs.p99_ms for ours, theirs in pairs]


def measure(bulk: Shape, flows: int, rounds: int, seconds: float, seed: int = 1) -> Found:
    """Each variant `rounds` times with `flows` bulk flows of this shape beside the small client."""
    raise_descriptor_limit()
    programs = build()
    variants = [each for each in installed(programs, []) if each.name in COMPARED]
    found = Found(versions={variant.name: variant.version for variant in variants})
    order = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        bench = Bench(programs, Path(folder), 11)
        try:
            with bench.proxies(variants) as running:
                for _ in range(rounds):
                    for name in order.sample(list(running), len(running)):
                        one = _run(bench, bulk, running[name][1], flows, seconds)
                        found.rounds.setdefault(name, []).append(one)
        finally:
            bench.close()
    return found


def _run(bench: Bench, bulk: Shape, port: int, flows: int, seconds: float) -> Round:
    """The bulk flows begin a little earlier than the small client and end a little later."""
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
    """The section as it stands in RESULTS.md."""
    lines = [
        "## Bulk flows beside a small client",
        "",
        "Made by `python -m bench.fairness`. Each bulk flow is one connection; the small client sends 200 requests of",
        "100 bytes a second, and its latency counts from when a request was meant to be sent.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        *(f"- {name}: {version}" for name, version in found.versions.items()),
        "",
        "|  | " + " | ".join(COLUMNS) + " |",
        "| --- " * (1 + len(COLUMNS)) + "|",
    ]
    for name, rounds in found.rounds.items():
        cells = (
            _text([each.p50_ms for each in rounds], 2),
            _text([each.p99_ms for each in rounds], 2),
            _text([each.total for each in rounds], 0),
            _text([min(each.flows) for each in rounds], 1),
            _text([max(each.flows) for each in rounds], 1),
            _text([100 * each.apart for each in rounds], 0) + " %",
        )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    added = _text(found.added_ms(), 2)
    apart = _text([100 * each.apart for each in found.rounds[SLUICE]], 0)
    lines += [
        "",
        f"Small p99 through Sluice minus {found.yardstick}: {added} ms (goal: at most {MAX_ADDED_MS}).",
        f"Sluice's bulk flow farthest from the mean: {apart} % (goal: at most {100 * MAX_APART:.0f}).",
    ]
    return "\n".join(lines)


def _text(values: list[float], digits: int) -> str:
    found = spread(values)
    assert found is not None
    return found.text(digits)


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmark; 1 if a goal is not met (by the median over the rounds)."""
    parser = argparse.ArgumentParser(prog="python -m bench.fairness")
    parser.add_argument("--flows", type=int, default=30)
    parser.add_argument("--kind", choices=("produce", "fetch"), default="produce")
    parser.add_argument("--value-bytes", type=int, default=MIB)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for RESULTS.md")
    given = parser.parse_args(arguments)
    bulk = Shape("bulk", "bulk", 1, depth=2, kind=given.kind, value_bytes=given.value_bytes)
    before = os.getloadavg()[0]
    try:
        found = measure(bulk, given.flows, given.rounds, given.seconds)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    facts = {
        **describe(),
        "load average before": f"{before:.1f}",
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load": f"{given.flows} flows of {given.kind} with {given.value_bytes} bytes, two in flight each",
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
    }
    text = section(found, facts)
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "RESULTS.md"
    file.write_text(put_section(file.read_text() if file.exists() else "", "fairness", text))
    print(text)
    added, apart = spread(found.added_ms()), spread([each.apart for each in found.rounds[SLUICE]])
    assert added is not None
    assert apart is not None
    return 0 if added.median <= MAX_ADDED_MS and apart.median <= MAX_APART else 1


if __name__ == "__main__":
    sys.exit(main())
