"""Kafka's own `kafka.TestPurgatoryPerformance`, from the test jar of 3.9.

3.9 is the last usable version: from 4.0 on the class completes every operation at its timeout. The jars are those of a
lock file; the heap is 200 MB, as in Kafka's benchmark. After lines that begin with `#` the program prints one line of
figures separated by tabs: elapsed ms, target and actual rate, CPU ms of the process, then garbage collection. It does
not report lateness.
"""

import os
import subprocess
from typing import Final

from bench.harness import ROOT, BenchError
from bench.purgatory.workload import KEY_SPACE, KEYS, TIMEOUT_MS, Load

MAIN: Final = "kafka.TestPurgatoryPerformance"
VERSION: Final = "3.9.2"
LOCK: Final = ROOT / "tests" / "support" / "locks" / f"purgatory-{VERSION}.lock"


def kafka_command() -> list[str]:
    """Return the command of the program, without its arguments.

    Raises:
        BenchError: there is no Java, or the jars are missing.
    """
    # Only this function needs the download's modules, which may not be installed.
    from pipeline.jars import JarsUnavailableError  # noqa: PLC0415
    from tests.support.java import KafkaUnavailableError, find_java  # noqa: PLC0415
    from tests.support.kafka_jars import kafka_jars  # noqa: PLC0415

    try:
        return [find_java(), "-Xmx200m", "-cp", f"{kafka_jars(LOCK)}/*", MAIN]
    except (KafkaUnavailableError, JarsUnavailableError) as error:
        raise BenchError(str(error)) from error


def arguments(load: Load, rate: int, requests: int) -> list[str]:
    """Return the program's arguments. The size is required but unused."""
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
    """Run it once; return the figures of `bench.purgatory.run` that the program has.

    Raises:
        BenchError: it failed, or printed no figures.
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
    """Return the line of figures as a mapping.

    Raises:
        BenchError: there is no such line.
    """
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("#")]
    try:
        elapsed_ms, target, actual, cpu_ms = (float(part) for part in lines[-1].split("\t")[:4])
    except (IndexError, ValueError) as error:
        raise BenchError(f"no line of figures in {said[-500:]!r}") from error
    return {
        "requests": requests,
        "target": target,
        "actual": actual,
        "cores": cpu_ms / elapsed_ms,
        "cpu_us": cpu_ms * 1000 / requests,
    }
