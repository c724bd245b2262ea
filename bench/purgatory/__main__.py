"""`python -m bench.purgatory`: the source's own benchmark; writes its section of bench/RESULTS.md and purgatory.svg.

Rules: every candidate plays the same draws of a load and rate (Kafka's draws its own, by the same rule), in shuffled
order. One that does not reach 90 % of a rate is not asked for more, unless it is one of those the goals speak of. The
results are written even when a goal is not met; the exit code is 1 only when the project's own wheel could not be
measured.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.build import HERE, BenchError
from bench.machine import describe
from bench.purgatory.compiled import ROOT, compiled
from bench.purgatory.figures import (
    CANDIDATES,
    COMPILED,
    KAFKA,
    LOOP,
    SOURCE_RATE,
    WHEEL,
    Candidate,
    Found,
    Run,
    goals,
)
from bench.purgatory.kafka import kafka_command, run_kafka
from bench.purgatory.plot import svg
from bench.purgatory.report import section
from bench.purgatory.workload import (
    LOADS,
    SAMPLES,
    Load,
    draw_workload,
    interval_samples,
    latency_samples,
)
from bench.section import put_section

FULL_RATES = "10000,40000,105000,200000,300000,400000"
QUICK_RATES = "40000,105000"
REQUESTS = 1_000_000
FEWER = 4
"""The others play this part of the requests: it is soon clear what they can do."""
SLOW_SECONDS = 2.0
"""Below the source's rate a million requests would take too long; so long is enough."""
SATURATED = 0.9
TRIES = 3
"""For a run that others disturbed, of a candidate that the goals speak of."""


class Bench:
    """All candidates that can run here, and what has been found."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        self.folder = folder
        self.found = Found()
        self.requests: int = given.requests or (REQUESTS // 20 if given.quick else REQUESTS)
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
                f"no candidate {', '.join(unknown)}; there are {', '.join(sorted(known))}"
            )
        chosen = [each for each in CANDIDATES if not wanted or each.name in wanted]
        return [each for each in chosen if self._prepared(each.name)]

    def _prepared(self, name: str) -> bool:
        try:
            if name == COMPILED:
                self._compiled = compiled()
            elif name == KAFKA:
                self._kafka = kafka_command()
        except BenchError as error:
            self._leave_out(name, error)
            return False
        return True

    def _leave_out(self, what: str, error: BenchError) -> None:
        print(f"left out: {what}: {error}", flush=True)
        self.found.left_out[what] = str(error).strip()

    def measure(self, rate: int) -> None:
        """Every candidate under both loads at this rate."""
        intervals = interval_samples(rate, self._order, self._samples)
        requests = self.requests
        if rate < SOURCE_RATE:
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
        tries = TRIES if each.thorough else 1
        while not tried or (tried[-1].disturbed and len(tried) < tries):
            try:
                said = self._run(each, load, rate, requests)
            except BenchError as error:
                self._leave_out(f"{each.title}, {load.name} timeouts, {rate:,}/s", error)
                self._given_up.add((each.name, load.name))
                return
            run = run_of(each, load, rate, said)
            tried.append(run)
            print(
                f"{load.name:5} {rate:7,}/s  {each.title:30} {run.actual:8,.0f}/s"
                f" {run.cores:5.2f} cores {run.cpu_us:6.2f} µs",
                flush=True,
            )
        best = max(tried, key=lambda run: run.actual)
        self.found.runs.append(best)
        if not each.thorough and best.actual < SATURATED * best.target:
            self._given_up.add((each.name, load.name))

    def _measure_loop(self) -> None:
        try:
            self.found.loop_cpu_us = play(LOOP, self.folder / "fewer")["cpu_us"]
        except BenchError as error:
            self._leave_out("the benchmark's own cost", error)

    def _run(self, each: Candidate, load: Load, rate: int, requests: int) -> dict[str, float]:
        if each.name == KAFKA:
            return run_kafka(self._kafka, load, rate, requests)
        stem = self.folder / ("all" if each.thorough else "fewer")
        if each.name == COMPILED:
            return play(WHEEL, stem, self._compiled)
        return play(each.name, stem)


def run_of(each: Candidate, load: Load, rate: int, said: dict[str, float]) -> Run:
    """What a run printed, as a Run."""
    return Run(
        candidate=each.name,
        load=load.name,
        rate=rate,
        requests=int(said["requests"]),
        target=said["target"],
        actual=said["actual"],
        cores=said["cores"],
        cpu_us=said["cpu_us"],
        resident_bytes=said["resident_bytes"],
        late_p99_us=said.get("late_p99_us"),
        expired=said.get("expired"),
    )


def play(name: str, stem: Path, where: Path = ROOT) -> dict[str, float]:
    """One run in a process of its own, with the modules that lie in `where`; see `bench.purgatory.run`.

    Raises:
        BenchError: it failed.
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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench.purgatory", description=(__doc__ or "").split("\n", 1)[0]
    )
    made.add_argument("--quick", action="store_true", help="half a minute; for while you work")
    made.add_argument("--rates", default="", help=f"comma-separated; default: {FULL_RATES}")
    made.add_argument("--requests", type=int, help=f"of a run at most; default: {REQUESTS}")
    made.add_argument("--candidates", default="", help="comma-separated; default: all there are")
    made.add_argument("--seed", type=int, default=1, help="of the draws and the shuffling")
    made.add_argument("--out", type=Path, default=HERE, help="folder of RESULTS.md")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measures and writes; returns the exit code."""
    given = parser().parse_args(arguments)
    rates = given.rates or (QUICK_RATES if given.quick else FULL_RATES)
    try:
        with tempfile.TemporaryDirectory(prefix="sluice-purgatory-") as folder:
            bench = Bench(Path(folder), given)
            for rate in sorted(int(rate) for rate in rates.split(",")):
                bench.measure(rate)
    except (BenchError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    found = bench.found
    found.facts = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "purge interval": "1,000 operations",
        "wheels": "tick 1 ms; hierarchical: 20 buckets a level, simple: 256, hashed: 64",
        **describe(),
    }
    write(found, given.out)
    return 0 if any(run.candidate == WHEEL for run in found.runs) else 1


def write(found: Found, folder: Path) -> None:
    """Its section, its picture, and the goals on the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "RESULTS.md"
    text = file.read_text() if file.exists() else ""
    file.write_text(put_section(text, "purgatory", section(found)))
    (folder / "purgatory.svg").write_text(svg(found))
    words = {True: "met         ", False: "NOT MET     ", None: "not measured"}
    for goal in goals(found):
        measured = "" if goal.measured is None else f": {goal.measured.text(goal.digits)}"
        print(f"{words[goal.met]} {goal.what}{measured}, must {goal.must:g}")
    print(f"written: {file}")


if __name__ == "__main__":
    sys.exit(main())
