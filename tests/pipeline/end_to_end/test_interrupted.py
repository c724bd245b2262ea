"""Real commands that are interrupted, and whose Java is killed: one line each, and nothing is left running."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes.pipeline_process import COMMAND
from tests.support.telemetry.usage_rows import numbered, usage_row, write_usage_log

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300
JAVA_STARTS, JOB_RUNS = "incubator modules", "ingest ..."
"""What a command says first of all by its Java, and at the beginning of its first job."""


class Ended(NamedTuple):
    """How a command ended: its exit code, what it said on standard error, and whether its Java is gone."""

    code: int
    said: str
    java_is_gone: bool


def run(folder: Path, words: str, number: int, *, to_java: bool = False) -> Ended:
    """Run `all`, and when it has said the words send the signal, to all its processes as a terminal does.

    `to_java` sends it to Java alone.
    """
    write_usage_log(folder / "log", numbered(usage_row("entity", requests=n) for n in range(50)))
    said = folder / "said"
    command = [str(COMMAND), "all", str(folder / "log"), str(folder / "out")]
    with said.open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )
    give_up = time.monotonic() + PATIENCE_SECONDS
    while words not in said.read_text():
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < give_up
        time.sleep(0.05)
    (java,) = children_of(process.pid)
    if to_java:
        os.kill(java, number)
    else:
        os.killpg(process.pid, number)
    code = process.wait(PATIENCE_SECONDS)
    while Path(f"/proc/{java}").exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    return Ended(code, said.read_text(), not Path(f"/proc/{java}").exists())


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("words", [JAVA_STARTS, JOB_RUNS])
def test_an_interrupt_is_one_line(tmp_path: Path, words: str) -> None:
    """While Java starts and while a job runs: exit code 130, and no line of Java, Python or Spark."""
    ended = run(tmp_path, words, signal.SIGINT)

    last = [line for line in ended.said.splitlines() if not line.endswith("...")][-1]
    assert (ended.code, last) == (130, "interrupted"), ended.said
    assert ended.java_is_gone
    assert len(ended.said.splitlines()) <= 3, ended.said


def test_a_java_that_is_killed_is_one_line(tmp_path: Path) -> None:
    """As the kernel kills it if the machine has no more memory: exit code 1, and a way out."""
    ended = run(tmp_path, JOB_RUNS, signal.SIGKILL, to_java=True)

    assert ended.code == 1
    assert "error: all failed: Spark's Java process has ended" in ended.said.splitlines()[-1]
    assert len(ended.said.splitlines()) <= 3, ended.said
