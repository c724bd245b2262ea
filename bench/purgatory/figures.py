"""What was found in each run, and the goals.

Rules: a rate is held when requests came at least at 99 % of it. A goal whose runs are missing is not measured, never
met.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bench.figures import spread
from bench.goals import Goal

HELD: Final = 0.99
SOURCE_RATE: Final = 105_000
"""Where the source's own design was saturated, in the case of many timeouts."""
BUSY: Final = 0.9
"""Cores from which on a run that did not hold its rate has itself to blame."""
WARM: Final = 500_000
"""Requests that a run of Java's must have for a comparison: a shorter one is spent on compiling."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to keep deadlines. `thorough`: measured at every rate, with as many requests as the source."""

    name: str
    title: str
    thorough: bool = False


WHEEL: Final = "wheel"
COMPILED: Final = "compiled"
KAFKA: Final = "kafka"
LOOP: Final = "loop"
"""No candidate: what the benchmark itself costs."""
CANDIDATES: Final = (
    Candidate("list", "list"),
    Candidate("heap", "heap"),
    Candidate("simple", "simple wheel"),
    Candidate("hashed", "hashed wheel"),
    Candidate("linked", "hierarchical, linked lists"),
    Candidate(WHEEL, "hierarchical, dicts (Sluice)", thorough=True),
    Candidate(COMPILED, "the same, compiled", thorough=True),
    Candidate(KAFKA, "Kafka 3.9, Java", thorough=True),
)
TITLES: Final = {each.name: each.title for each in CANDIDATES}


@dataclass(frozen=True, slots=True)
class Run:
    """One candidate under one load at one rate. Rates are requests per second, `target` as drawn."""

    candidate: str
    load: str
    rate: int
    requests: int
    target: float
    actual: float
    cores: float
    cpu_us: float
    resident_bytes: float
    late_p99_us: float | None = None
    expired: float | None = None

    @property
    def held(self) -> bool:
        """Whether requests came as fast as they should."""
        return self.actual >= HELD * self.target

    @property
    def disturbed(self) -> bool:
        """Whether it could not hold its rate, but for want of a core that others had."""
        return not self.held and self.cores < BUSY


@dataclass(slots=True)
class Found:
    """Everything a run found; `left_out` says why a candidate is missing."""

    runs: list[Run] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    loop_cpu_us: float | None = None

    def run(self, candidate: str, load: str, rate: int) -> Run | None:
        """The one of these, if there is one."""
        for each in self.runs:
            if (each.candidate, each.load, each.rate) == (candidate, load, rate):
                return each
        return None

    def names(self) -> list[str]:
        """The candidates that ran, in the order of the table."""
        ran = {each.candidate for each in self.runs}
        return [each.name for each in CANDIDATES if each.name in ran]

    def most_held(self, candidate: str, load: str) -> int | None:
        """The highest rate that it held, with all below it."""
        best = None
        for run in sorted(self.runs, key=lambda run: run.rate):
            if (run.candidate, run.load) == (candidate, load):
                if not run.held:
                    break
                best = run.rate
        return best


def goals(found: Found) -> list[Goal]:
    """Every goal, with what was measured for each."""
    return [
        *_rates(found),
        *(_cores(found, load) for load in ("low", "high")),
        *(_against_java(found, WHEEL, load, 1.2) for load in ("low", "high")),
        *(_against_java(found, COMPILED, load, 1.0) for load in ("low", "high")),
    ]


def _rates(found: Found) -> list[Goal]:
    lines = []
    for load, rate in (("low", 200_000), ("low", SOURCE_RATE), ("high", SOURCE_RATE)):
        run = found.run(WHEEL, load, rate)
        measured = None if run is None else spread([run.actual / run.target])
        what = f"plain Python holds {rate:,}/s, {load} timeouts: actual by target"
        lines.append(Goal(what, "", measured, HELD, at_least=True, digits=3))
    return lines


def _cores(found: Found, load: str) -> Goal:
    run = found.run(WHEEL, load, SOURCE_RATE)
    measured = None if run is None else spread([run.cores])
    what = f"plain Python at {SOURCE_RATE:,}/s, {load} timeouts"
    return Goal(what, "cores", measured, 0.5, at_least=False)


def _against_java(found: Found, candidate: str, load: str, must: float) -> Goal:
    ours, theirs = (found.run(name, load, SOURCE_RATE) for name in (candidate, KAFKA))
    measured = None
    if ours is not None and theirs is not None and theirs.requests >= WARM:
        measured = spread([ours.cpu_us / theirs.cpu_us])
    which = "plain Python" if candidate == WHEEL else "compiled"
    what = f"CPU per request at {SOURCE_RATE:,}/s, {load} timeouts: {which} by Java's"
    return Goal(what, "x", measured, must, at_least=False)
