"""Child processes: where they run, when they accept, how they end."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.harness import BenchError
from bench.harness.ports import free_ports
from bench.harness.processes import Program, end, module_process, suspended

DEAF = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); sys.stdin.read()"


def python(code: str, log: Path, *, piped: bool = False) -> Program:
    core = min(os.sched_getaffinity(0))
    return Program([sys.executable, "-c", code], core, log, piped=piped)


def test_a_program_that_ends_is_reported_with_its_last_output(tmp_path: Path) -> None:
    """The error of a wait for its port has the exit code and the end of its stderr."""
    program = python("import sys; sys.exit('bad config')", tmp_path / "log")
    with pytest.raises(BenchError, match="ended with 1: bad config"):
        program.wait_accepting(free_ports())


def test_a_port_that_never_accepts_is_reported(tmp_path: Path) -> None:
    """The error names the address and the time; the program is stopped."""
    program = python("input()", tmp_path / "log")
    with pytest.raises(BenchError, match=r"did not accept within 0.01 s"):
        program.wait_accepting(free_ports(), timeout_s=0.01)
    assert program.process.returncode is not None


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    """The exit code is that of SIGKILL."""
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it ignores SIGTERM from here on
        assert end(process, 0.1) == -9
        assert end(process, 0.1) == -9


def test_a_suspended_process_runs_on_no_thread() -> None:
    """All of its threads have stopped when the block begins; they run again after it."""
    code = (
        "import threading as t\nfor _ in range(8): t.Thread(target=input, daemon=True).start()\n"
        "print(1, flush=True)\nwhile True: pass"
    )
    busy = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"1\n"
        usage = Path(f"/proc/{busy.pid}/schedstat")
        for _ in range(10):
            with suspended(busy.pid):
                used = usage.read_text()
                threading.Event().wait(0.02)
                assert usage.read_text() == used
            while usage.read_text() == used:
                os.sched_yield()
    finally:
        busy.kill()
        busy.communicate()


def test_a_module_runs_until_the_block_ends() -> None:
    """Its first line is given; it ends when its stdin is closed."""
    with module_process("tests.support.faults.stub_broker") as server:
        host, _, port = server.partition(":")
        assert host.startswith("127.0.")
        assert int(port)
