"""Kafka's own `kafka.TestPurgatoryPerformance`, from the test jar of 3.9.

3.9 is the last usable version: from 4.0 on the class completes every operation at its timeout. The jars are those of a
lock file; the heap is 200 MB, as in Kafka's benchmark. After lines that begin with `#` the program prints one line of
figures separated by tabs: elapsed ms, target and actual rate, CPU ms of the process, then garbage collection. It does
not report lateness.

The design before it is `OldPurgatory.java` in this folder, with the same arguments and line: no test jar of its time
can still be run. Pauses of the garbage collector are read from Java's own log.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from bench.harness import ROOT, BenchError
from bench.purgatory.workload import KEY_SPACE, KEYS, TIMEOUT_MS, Load

MAIN: Final = "kafka.TestPurgatoryPerformance"
VERSION: Final = "3.9.2"
OLD_MAIN: Final = "OldPurgatory"
OLD_SOURCE: Final = Path(__file__).with_name(f"{OLD_MAIN}.java")
HEAP: Final = "-Xmx200m"
_LEFT = re.compile(r"^# (\d+) operations are left$", re.MULTILINE)
_PAUSE = re.compile(r"Pause .* ([\d.]+)ms$", re.MULTILINE)
LOCK: Final = ROOT / "tests" / "support" / "kafka" / "locks" / f"purgatory-{VERSION}.lock"


def kafka_command() -> list[str]:
    """Return the command of the program, without its arguments.

    Raises:
        BenchError: there is no Java, or the jars are missing.
    """
    # Only this function needs the download's modules, which may not be installed.
    from pipeline.jars import JarsUnavailableError  # noqa: PLC0415
    from tests.support.kafka.java import KafkaUnavailableError, find_java  # noqa: PLC0415
    from tests.support.kafka.kafka_jars import kafka_jars  # noqa: PLC0415

    try:
        return [find_java(), HEAP, "-cp", f"{kafka_jars(LOCK)}/*", MAIN]
    except (KafkaUnavailableError, JarsUnavailableError) as error:
        raise BenchError(str(error)) from error


def old_command(folder: Path) -> list[str]:
    """Compile the old design into this folder; return the command of the program, without its arguments.

    Raises:
        BenchError: there is no Java, or no compiler beside it.
    """
    from tests.support.kafka.java import KafkaUnavailableError, find_java  # noqa: PLC0415 - as above

    try:
        java = Path(find_java())
    except KafkaUnavailableError as error:
        raise BenchError(str(error)) from error
    javac = java.resolve().with_name("javac")
    if not javac.exists():
        raise BenchError(f"there is no compiler beside {java}")
    done = subprocess.run(
        [javac, "-d", folder, OLD_SOURCE], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"{OLD_SOURCE.name} cannot be compiled: {done.stderr[-500:]}")
    return [str(java), HEAP, "-cp", str(folder), OLD_MAIN]


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


def run_kafka(
    command: list[str], load: Load, rate: int, requests: int, gc_log: Path | None = None
) -> dict[str, float]:
    """Run it once; return the figures of `bench.purgatory.run` that the program has.

    With `gc_log` Java writes its log of collections there, and their pauses are among the figures.

    Raises:
        BenchError: it failed, or printed no figures.
    """
    java, *rest = command
    logs = [] if gc_log is None else [f"-Xlog:gc:file={gc_log}"]
    with subprocess.Popen(
        [java, *logs, *rest, *arguments(load, rate, requests)],
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
    found = {**parse(said, requests), "resident_bytes": usage.ru_maxrss * 1024.0}
    if gc_log is not None:
        found["gc_ms"] = pauses_ms(gc_log.read_text())
    return found


def pauses_ms(log: str) -> float:
    """Return the sum of the pauses in a log of Java's garbage collector."""
    return sum(map(float, _PAUSE.findall(log)))


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
        "left": sum(map(float, _LEFT.findall(said))),
    }
