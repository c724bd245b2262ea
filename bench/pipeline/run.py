"""`python -m bench.pipeline.run`: runs commands of `sluice-pipeline` in one session and prints their time and memory.

Its standard input is the JSON of a Plan, its standard output the JSON of a list of Timed. A session that is warm has
compiled the code of a query and started the workers of Python, so the first run of a command is told apart. Memory is
the sum of the peaks of this process, the JVM and the workers of Python.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.harness.usage import peak_bytes, reset_peak
from pipeline.cli.main import main as sluice_pipeline
from pipeline.session import session

FRESH = "FRESH"
"""Stands in a command for a path that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and how often it runs."""

    name: str
    command: list[str]
    runs: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in one session. `master` is Spark's."""

    master: str
    steps: list[Step]


@dataclass(frozen=True, slots=True)
class Timed:
    """The seconds of each run of a step in their order, and the peak of the memory over all of them."""

    name: str
    seconds: list[float]
    memory_bytes: int


def play(plan: Plan, folder: Path) -> list[Timed]:
    """Run the steps; `folder` takes what they write."""
    with session("bench", master=plan.master):
        return [timed(step, folder) for step in plan.steps]


def timed(step: Step, folder: Path) -> Timed:
    """Run a step in the session that is open."""
    seconds = []
    reset_peak(os.getpid())
    for run in range(step.runs):
        fresh = str(folder / f"{step.name}-{run}".replace(" ", "-"))
        command = [fresh if each == FRESH else each for each in step.command]
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            sluice_pipeline(command, standalone_mode=False)
        seconds.append(time.perf_counter() - began)
    return Timed(step.name, seconds, peak_bytes(os.getpid()))


def main() -> int:
    """Run the plan of standard input; return the exit code."""
    told = json.load(sys.stdin)
    plan = Plan(told["master"], [Step(**step) for step in told["steps"]])
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        found = play(plan, Path(folder))
    json.dump([asdict(each) for each in found], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
