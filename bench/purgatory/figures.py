"""The candidates, the figures of each run, and the goals.

A rate is held if requests came at 99 % of it or more, and all of them ended. A goal whose runs are missing is "not
measured", never met.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from bench.goals import Goal, max_goal, min_goal

HELD: Final = 0.99
SOURCE_RATE: Final = 105_000
"""The rate at which Kafka's old design was saturated, under the load with many timeouts."""
BUSY: Final = 0.9
"""A run that did not hold its rate with fewer cores than this was disturbed by other processes."""
WARM: Final = 500_000
"""The least requests of a Java run for a comparison; a shorter run measures the JIT compiler."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A timer to compare. `thorough`: measured at every rate, with the number of requests of Kafka's benchmark."""

    name: str
    title: str
    thorough: bool = False


WHEEL: Final = "wheel"
COMPILED: Final = "compiled"
KAFKA: Final = "kafka"
OLD: Final = "old"
PAPER: Final = {("old", "low"): 40_000, ("old", "high"): 25_000, ("kafka", "high"): 105_000}
"""The rates at which both designs were saturated in Kafka's own benchmark, by candidate and load."""
PAPER_RATE: Final = 40_000
"""From this rate on a run has as many requests as those of Kafka's benchmark."""
LOOP: Final = "loop"
"""Not a candidate: the cost of the benchmark itself."""
CANDIDATES: Final = (
    Candidate("list", "list"),
    Candidate("heap", "heap"),
    Candidate("simple", "simple wheel"),
    Candidate("hashed", "hashed wheel"),
    Candidate("linked", "hierarchical, linked lists"),
    Candidate(WHEEL, "hierarchical, dicts (Sluice)", thorough=True),
    Candidate(COMPILED, "the same, compiled", thorough=True),
    Candidate(KAFKA, "Kafka 3.9, Java", thorough=True),
    Candidate(OLD, "Kafka's old design, Java", thorough=True),
)
TITLES: Final = {each.name: each.title for each in CANDIDATES}


@dataclass(frozen=True, slots=True)
class Run:
    """One candidate under one load at one rate. Rates are requests per second, `target` as drawn."""

    candidate: str
    load: str
    rate: int
    requests: float
    target: float
    actual: float
    cores: float
    cpu_us: float
    resident_bytes: float
    late_p99_us: float | None = None
    expired: float | None = None
    gc_ms: float | None = None
    blocks: float | None = None
    left: float = 0

    @property
    def held(self) -> bool:
        """Return whether requests came at the target rate, and none was left long after."""
        return self.actual >= HELD * self.target and not self.left

    @property
    def disturbed(self) -> bool:
        """Return whether it missed its rate because other processes had the core."""
        return not self.held and self.cores < BUSY


@dataclass(slots=True)
class Found:
    """All results; `left_out` gives the reason for each candidate that is missing."""

    runs: list[Run] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    loop_cpu_us: float | None = None

    def run(self, candidate: str, load: str, rate: int) -> Run | None:
        """Return this run; None if there is none."""
        for each in self.runs:
            if (each.candidate, each.load, each.rate) == (candidate, load, rate):
                return each
        return None

    def names(self) -> list[str]:
        """Return the candidates that ran, in the order of the table."""
        ran = {each.candidate for each in self.runs}
        return [each.name for each in CANDIDATES if each.name in ran]

    def max_held(self, candidate: str, load: str) -> int | None:
        """Return the highest rate that it held together with all lower ones; None if there is none."""
        best = None
        for run in sorted(self.runs, key=lambda run: run.rate):
            if (run.candidate, run.load) == (candidate, load):
                if not run.held:
                    break
                best = run.rate
        return best


def goals(found: Found) -> list[Goal]:
    """Return every goal with its measurement."""
    return [
        *_rates(found),
        *(_cores(found, load) for load in ("low", "high")),
        *(_against_java(found, WHEEL, load, 1.2) for load in ("low", "high")),
        *(_against_java(found, COMPILED, load, 0.5, 0.4) for load in ("low", "high")),
    ]


def _rates(found: Found) -> list[Goal]:
    lines = []
    for load, rate in (("low", 200_000), ("low", SOURCE_RATE), ("high", SOURCE_RATE)):
        run = found.run(WHEEL, load, rate)
        what = f"plain Python holds {rate:,}/s, {load} timeouts: actual / target"
        lines.append(min_goal(what, "", None if run is None else run.actual / run.target, HELD, 3))
    return lines


def _cores(found: Found, load: str) -> Goal:
    run = found.run(WHEEL, load, SOURCE_RATE)
    what = f"plain Python at {SOURCE_RATE:,}/s, {load} timeouts"
    return max_goal(what, "cores", None if run is None else run.cores, 0.5)


def _against_java(
    found: Found, candidate: str, load: str, must: float, aim: float | None = None
) -> Goal:
    ours, theirs = (found.run(name, load, SOURCE_RATE) for name in (candidate, KAFKA))
    measured = None
    if ours is not None and theirs is not None and theirs.requests >= WARM:
        measured = ours.cpu_us / theirs.cpu_us
    which = "plain Python" if candidate == WHEEL else "compiled"
    what = f"CPU per request at {SOURCE_RATE:,}/s, {load} timeouts: {which} / Java"
    return replace(max_goal(what, "x", measured, must), aim=aim)
