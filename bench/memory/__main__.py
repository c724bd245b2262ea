"""`python -m bench.memory`: what Sluice may hold, in five cases on a real Kafka; its sections of bench/RESULTS.md.

Rules: every case is written as it was found; the exit code is 1 when a goal was not met. A case that cannot be measured
here is left out with its reason. `--only` measures some and leaves the others' sections as they are.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.build import HERE, BenchError
from bench.machine import describe
from bench.memory import burst, container, mixed, slowloris, unread
from bench.memory.figures import Case
from bench.memory.kafka import running_kafka
from bench.memory.proxies import has_pool
from bench.memory.report import with_cases
from bench.processes import raise_descriptor_limit
from tests.support.kafka_jars import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.memory.kafka import Kafka

CASES: Final[dict[str, Callable[[Kafka, Path], Case]]] = {
    "a": mixed.measure,
    "b": unread.measure,
    "c": slowloris.measure,
    "d": burst.measure,
    "e": container.measure,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench.memory", description=(__doc__ or "").split("\n", 1)[0]
    )
    made.add_argument("--only", default="", help="some of a, b, c, d, e; default: all")
    made.add_argument("--out", type=Path, default=HERE, help="folder of RESULTS.md")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measures and writes; returns the exit code."""
    given = parser().parse_args(arguments)
    names = sorted(set(given.only.replace(",", ""))) or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        print(f"bench: no case {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 1
    try:
        found = measure(names)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    write(found, given.out)
    return 1 if any(case.failed for case in found) else 0


def measure(names: list[str]) -> list[Case]:
    """The cases, before one broker.

    Raises:
        BenchError: there is no Kafka here.
    """
    raise_descriptor_limit()
    if not has_pool():
        print("this Sluice has no memory pool: measured without", flush=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="sluice-memory-") as name, ExitStack() as stack:
        kafka = stack.enter_context(running_kafka(Path(name)))
        for case in names:
            print(f"case {case} ...", flush=True)
            found.append(measure_one(case, kafka, Path(name) / case))
            tell(found[-1])
    return found


def measure_one(name: str, kafka: Kafka, folder: Path) -> Case:
    """One case; what breaks it does not break the others, who find a fresh broker."""
    try:
        return CASES[name](kafka, folder)
    except (BenchError, OSError) as error:
        kafka.restart()
        return Case(name, f"{name}.", "", broken=f"{type(error).__name__}: {error}")


def tell(case: Case) -> None:
    """Its goals, on the terminal."""
    words = {True: "met    ", False: "NOT MET", None: "-      "}
    for goal in case.goals:
        figure = "not measured" if goal.measured is None else goal.measured.text(goal.digits)
        print(
            f"{words[goal.met]} {goal.what}: {figure} {goal.unit}, must {goal.must:g}", flush=True
        )
    if case.broken:
        print(f"BROKEN  {case.title} {case.broken}", flush=True)
    for what, why in case.left_out.items():
        print(f"        {what}: {why}", flush=True)


def write(found: list[Case], folder: Path) -> None:
    """Their sections."""
    machine = describe()
    facts = {
        "Measured": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Kafka": KAFKA_VERSION,
        **{key: machine[key] for key in ("processor", "cores", "kernel", "Python")},
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "RESULTS.md"
    text = file.read_text() if file.exists() else ""
    file.write_text(with_cases(text, found, facts))
    print(f"written: {file}")


if __name__ == "__main__":
    sys.exit(main())
