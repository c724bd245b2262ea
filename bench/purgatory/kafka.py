"""Kafka's own `kafka.TestPurgatoryPerformance`, from the test jar of 3.9: the last that measures what it says.

Rules:
- The jars come by the lock that the tests' other jars come by; the heap is the source's, 200 MB. From 4.0 on the
  class completes every operation at its timeout, so its figures compare with nothing.
- It prints one line of figures, separated by tabs, after lines that begin with `#`: elapsed ms, target and actual
  rate, CPU ms of the process, then what the garbage collector did. It tells nothing of lateness.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from bench.build import HERE, BenchError
from bench.purgatory.workload import KEY_SPACE, KEYS, TIMEOUT_MS

if TYPE_CHECKING:
    from bench.purgatory.workload import Load

MAIN: Final = "kafka.TestPurgatoryPerformance"
VERSION: Final = "3.9.2"
LOCK: Final = HERE.parent / "tests" / "support" / "locks" / f"purgatory-{VERSION}.lock"


def kafka_command() -> list[str]:
    """How it is started, without its arguments.

    Raises:
        BenchError: no Java, or not the jars; says why.
    """
    # The download's machinery is only needed here, and may not be installed.
    from tests.support.java import KafkaUnavailableError, find_java  # noqa: PLC0415
    from tests.support.kafka_jars import JarsUnavailableError, kafka_jars  # noqa: PLC0415

    try:
        return [find_java(), "-Xmx200m", "-cp", f"{kafka_jars(LOCK)}/*", MAIN]
    except (KafkaUnavailableError, JarsUnavailableError) as error:
        raise BenchError(str(error)) from error


def arguments(load: Load, rate: int, requests: int) -> list[str]:
    """What it is told. The size is asked for, but not used."""
    given = {
        "--num": requests,
        "--rate": rate,
        "--size": 100,
        "--timeout": TIMEOUT_MS,
        "--pct50": load.pct50_ms,
        "--pct75": load.pct75_ms,
        "--keys": KEYS,
        "--key-space-size": KEY_SPACE,
    }
    return [str(part) for pair in given.items() for part in pair]


def run_kafka(command: list[str], load: Load, rate: int, requests: int) -> dict[str, float]:
    """One run; the same figures as `bench.purgatory.run` prints, as far as there are any.

    Raises:
        BenchError: it failed, or printed something else.
    """
    with subprocess.Popen(
        [*command, *arguments(load, rate, requests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"exit code {process.returncode}: {said[-500:]}")
    return {**parse(said, requests), "resident_bytes": usage.ru_maxrss * 1024}


def parse(said: str, requests: int) -> dict[str, float]:
    """The line of figures.

    Raises:
        BenchError: there is none.
    """
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("#")]
    try:
        elapsed_ms, target, actual, cpu_ms = (float(part) for part in lines[-1].split("\t")[:4])
    except (IndexError, ValueError) as error:
        raise BenchError(f"not a line of figures: {said[-500:]}") from error
    return {
        "requests": requests,
        "target": target,
        "actual": actual,
        "cores": cpu_ms / elapsed_ms,
        "cpu_us": cpu_ms * 1000 / requests,
    }
