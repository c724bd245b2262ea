"""CPU and memory of children that come and go."""

import subprocess
import sys

from bench.pipeline.process_use import COMMAND, WORKER, Use, watched

HELD_BYTES = 64 << 20
WORK = f"held = bytearray(b'x') * {HELD_BYTES}; sum(range(3_000_000)); print(flush=True); input()"


def child(*words: str) -> subprocess.Popen[bytes]:
    """Start a process that works, holds memory, says so and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", WORK, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def seen(process: subprocess.Popen[bytes], use: Use) -> None:
    """Look at the process when it waits, and end it."""
    assert process.stdout is not None
    assert process.stdout.readline()
    use.sample()
    process.communicate(b"\n")


def test_what_a_child_used_is_kept_when_it_has_ended() -> None:
    """Its CPU time counts for the sum, its memory for its kind."""
    with watched() as use:
        seen(child(), use)
        seen(child("org.apache.spark.deploy.worker.Worker"), use)

    assert use.cpu_s > 0
    assert HELD_BYTES < use.peaks[COMMAND] < 2 * HELD_BYTES
    assert HELD_BYTES < use.peaks[WORKER] < 2 * HELD_BYTES


def test_what_was_used_before_does_not_count() -> None:
    """A cluster's workers live longer than a command."""
    process = child()
    first = Use()
    first.sample()
    assert process.stdout is not None
    process.stdout.readline()
    first.sample()
    later = Use()
    later.sample()
    process.communicate(b"\n")
    later.sample()

    assert later.cpu_s < first.cpu_s
