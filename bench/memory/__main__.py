"""`python -m bench.memory`: memory limits in six cases with a real Kafka; writes its sections of bench/RESULTS.md.

The exit code is 1 if a goal was not met. A case that cannot be measured here is left out with the reason. `--only`
measures some cases and keeps the sections of the others.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.goals import tell
from bench.harness import BenchError
from bench.harness.command import options, prints_errors
from bench.harness.machine import describe, raise_descriptor_limit, today
from bench.harness.markdown import read_results, write_results
from bench.memory import burst, container, mixed, slow, slowloris, unread
from bench.memory.figures import Case, with_cases
from bench.memory.kafka import Kafka, running_kafka
from tests.support.kafka.kafka_jars import KAFKA_VERSION

CASES: Final[dict[str, Callable[[Kafka, Path], Case]]] = {
    "a": mixed.measure,
    "b": unread.measure,
    "c": slowloris.measure,
    "d": burst.measure,
    "e": container.measure,
    "f": slow.measure,
}


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = options("bench.memory", __doc__)
    parser.add_argument("--only", default="", help="some of a, b, c, d, e, f; default: all")
    given = parser.parse_args(arguments)
    names = sorted(set(given.only.replace(",", ""))) or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        raise BenchError(f"unknown case {', '.join(unknown)}; known: {', '.join(CASES)}")
    found = measure(names)
    write(found, given.out)
    return 1 if any(case.failed for case in found) else 0


def measure(names: list[str]) -> list[Case]:
    """Measure the cases with one broker; return their results.

    Raises:
        BenchError: Kafka cannot run here.
    """
    raise_descriptor_limit()
    found = []
    with tempfile.TemporaryDirectory(prefix="sluice-memory-") as name, ExitStack() as stack:
        kafka = stack.enter_context(running_kafka(Path(name)))
        for case in names:
            print(f"case {case} ...", flush=True)
            found.append(measure_one(case, kafka, Path(name) / case))
            show(found[-1])
    return found


def measure_one(name: str, kafka: Kafka, folder: Path) -> Case:
    """Measure one case; an error is recorded and the broker restarted, so that the other cases can run."""
    try:
        return CASES[name](kafka, folder)
    except (BenchError, OSError) as error:
        kafka.restart()
        return Case(name, f"{name}.", "", error=f"{type(error).__name__}: {error}")


def show(case: Case) -> None:
    """Print a case's goals and problems."""
    tell(case.goals)
    if case.error:
        print(f"FAILED       {case.title} {case.error}", flush=True)
    for what, reason in case.left_out.items():
        print(f"             {what}: {reason}", flush=True)


def write(found: list[Case], folder: Path) -> None:
    """Write the sections of these cases."""
    machine = describe()
    facts = {
        "Measured": today(),
        "Kafka": KAFKA_VERSION,
        **{key: machine[key] for key in ("processor", "cores", "kernel", "Python")},
    }
    write_results(folder, with_cases(read_results(folder), found, facts))


if __name__ == "__main__":
    sys.exit(main())
