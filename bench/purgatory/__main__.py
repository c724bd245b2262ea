"""`python -m bench.purgatory`: Kafka's benchmark of its purgatory; writes its section of bench/RESULTS.md.

It writes purgatory.svg, too. Every candidate runs the same drawn workload (Kafka's program draws its own, by the same
rule), in shuffled order. A candidate that does not reach 90 % of a rate skips the higher rates, unless a goal needs
it. The exit code is 1 only if Sluice's wheel could not be measured.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.goals import tell
from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.machine import describe, today
from bench.harness.markdown import write_section
from bench.purgatory.compiled import compiled
from bench.purgatory.figures import (
    CANDIDATES,
    COMPILED,
    KAFKA,
    LOOP,
    OLD,
    PAPER_RATE,
    SOURCE_RATE,
    WHEEL,
    Candidate,
    Found,
    Run,
    goals,
)
from bench.purgatory.kafka import kafka_command, old_command, run_kafka
from bench.purgatory.plot import plot
from bench.purgatory.report import section
from bench.purgatory.workload import (
    LOADS,
    SAMPLES,
    Load,
    draw_workload,
    interval_samples,
    latency_samples,
)

RATES = "10000,25000,40000,105000,200000,300000,400000"
REQUESTS = 1_000_000
FEWER = 4
"""Candidates without a goal run a quarter of the requests."""
SLOW_SECONDS = 2.0
"""The duration of a run below PAPER_RATE; a million requests would take too long."""
SATURATED = 0.9
TRIES = 3
"""Runs at most, if other processes disturbed the run of a candidate with a goal."""


class Bench:
    """The candidates that can run here, and the results so far."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        self.folder = folder
        self.found = Found()
        self._java: dict[str, list[str]] = {}
        self.requests: int = given.requests
        self.candidates = self._choose(given.candidates)
        self._order = random.Random(given.seed)
        self._samples = min(SAMPLES, 2 * self.requests)
        self._latencies = {
            load.name: latency_samples(load, self._order, self._samples) for load in LOADS
        }
        self._given_up: set[tuple[str, str]] = set()

    def _choose(self, names: str) -> list[Candidate]:
        wanted = [name for name in names.split(",") if name]
        known = {each.name for each in CANDIDATES}
        if unknown := [name for name in wanted if name not in known]:
            raise BenchError(
                f"unknown candidate {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        chosen = [each for each in CANDIDATES if not wanted or each.name in wanted]
        return [each for each in chosen if self._prepared(each.name)]

    def _prepared(self, name: str) -> bool:
        try:
            if name == COMPILED:
                self._compiled = compiled()
            elif name == KAFKA:
                self._java[name] = kafka_command()
            elif name == OLD:
                self._java[name] = old_command(self.folder)
        except BenchError as error:
            self._leave_out(name, error)
            return False
        return True

    def _leave_out(self, what: str, error: BenchError) -> None:
        print(f"left out: {what}: {error}", flush=True)
        self.found.left_out[what] = str(error).strip()

    def measure(self, rate: int) -> None:
        """Run every candidate under both loads at this rate."""
        intervals = interval_samples(rate, self._order, self._samples)
        requests = self.requests
        if rate < PAPER_RATE:
            requests = min(requests, int(rate * SLOW_SECONDS))
        for load in LOADS:
            drawn = draw_workload(intervals, self._latencies[load.name], requests, self._order)
            drawn.save(self.folder / "all")
            drawn.first(min(requests // 2, self.requests // FEWER)).save(self.folder / "fewer")
            for each in self._order.sample(self.candidates, len(self.candidates)):
                if (each.name, load.name) in self._given_up:
                    continue
                self._measure_one(each, load, rate, requests)
            if rate == SOURCE_RATE and load is LOADS[0]:
                self._measure_loop()

    def _measure_one(self, each: Candidate, load: Load, rate: int, requests: int) -> None:
        tried: list[Run] = []
        tries = TRIES if each.thorough and each.name != OLD else 1
        while not tried or (tried[-1].disturbed and len(tried) < tries):
            try:
                said = self._run(each, load, rate, requests)
            except BenchError as error:
                self._leave_out(f"{each.title}, {load.name} timeouts, {rate:,}/s", error)
                self._given_up.add((each.name, load.name))
                return
            run = Run(each.name, load.name, rate, **said)
            tried.append(run)
            print(
                f"{load.name:5} {rate:7,}/s  {each.title:30} {run.actual:8,.0f}/s"
                f" {run.cores:5.2f} cores {run.cpu_us:6.2f} µs",
                flush=True,
            )
        best = max(tried, key=lambda run: run.actual)
        self.found.runs.append(best)
        gives_up = not each.thorough or each.name == OLD
        if gives_up and (best.left or best.actual < SATURATED * best.target):
            self._given_up.add((each.name, load.name))

    def _measure_loop(self) -> None:
        try:
            self.found.loop_cpu_us = play(LOOP, self.folder / "fewer")["cpu_us"]
        except BenchError as error:
            self._leave_out("the benchmark's own cost", error)

    def _run(self, each: Candidate, load: Load, rate: int, requests: int) -> dict[str, float]:
        if each.name in self._java:
            return run_kafka(self._java[each.name], load, rate, requests, self.folder / "gc.log")
        stem = self.folder / ("all" if each.thorough else "fewer")
        if each.name == COMPILED:
            return play(WHEEL, stem, self._compiled)
        return play(each.name, stem)


def play(name: str, stem: Path, where: Path = ROOT) -> dict[str, float]:
    """Run `bench.purgatory.run` in a separate process with the modules in `where`; return its figures.

    Raises:
        BenchError: the run failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.purgatory.run", name, str(stem)],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(done.stderr.strip().rsplit("\n", 1)[-1] or f"exit code {done.returncode}")
    said: dict[str, float] = json.loads(done.stdout)
    return said


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = options("bench.purgatory", __doc__, requests=REQUESTS, seed=1)
    parser.add_argument("--rates", default=RATES, help="comma-separated")
    parser.add_argument("--candidates", default="", help="comma-separated; default: all")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sluice-purgatory-") as folder:
        bench = Bench(Path(folder), given)
        for rate in sorted(int(rate) for rate in given.rates.split(",")):
            bench.measure(rate)
    found = bench.found
    found.facts = {
        "date": today(),
        "purge interval": "1,000 operations",
        "wheels": "tick 1 ms; hierarchical: 20 buckets a level, simple: 256, hashed: 64",
        **describe(),
    }
    write_section(given.out, "purgatory", section(found))
    (given.out / "purgatory.svg").write_text(plot(found))
    tell(goals(found))
    return 0 if any(run.candidate == WHEEL for run in found.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
