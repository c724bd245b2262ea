"""Child processes: start one on a chosen core, wait until it accepts connections, end it.

A child is pinned by moving this process to the core first, so that the child's threads start there. Only processes
that were started here are ended, by their id.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.harness import ROOT, BenchError
from bench.harness.ports import LOOPBACK, accepts

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 20.0
NO_CACHE: Final = "PYTHONDONTWRITEBYTECODE"
"""A Python with it would compile all modules at each start, which pip does once."""
_POLL_SECONDS: Final = 0.001
_TAIL_LINES: Final = 2


class Program:
    """A child process pinned to one core (None: to none); its stderr goes to the file `log`.

    Its stdout goes to the same file, or to a pipe (`line` reads it) if `piped`.
    """

    def __init__(
        self, command: list[str], core: int | None, log: Path, *, piped: bool = False
    ) -> None:
        self.command = command
        self.log = log
        before = os.sched_getaffinity(0)
        if core is not None:
            os.sched_setaffinity(0, {core})
        try:
            with log.open("wb") as errors:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if piped else errors,
                    stderr=errors,
                    start_new_session=True,
                    env={name: value for name, value in os.environ.items() if name != NO_CACHE},
                )
        finally:
            os.sched_setaffinity(0, before)

    @property
    def pid(self) -> int:
        """The process id of the tree's root."""
        return self.process.pid

    def line(self, timeout_s: float) -> str:
        """Return the next line of its stdout.

        Raises:
            BenchError: no line came within `timeout_s`; the program is stopped.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        text = self.process.stdout.readline().decode() if ready else ""
        if not text:
            self.stop()
            raise BenchError(self.last_words("printed nothing"))
        return text

    def say(self, text: str) -> None:
        """Write to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def wait_accepting(self, port: int, timeout_s: float = START_SECONDS) -> float:
        """Wait until 127.0.0.1:`port` accepts; return the seconds that took.

        Raises:
            BenchError: the program ended, or the time is up; the program is stopped.
        """
        try:
            return wait_accepting(self.process, LOOPBACK, port, self._tail, timeout_s)
        except BenchError as error:
            self.stop()
            raise BenchError(f"{self._name}: {error}") from None

    def last_words(self, event: str) -> str:
        """Return a message: the program's name, the event, and the end of its stderr."""
        return f"{self._name}: {event}: {self._tail()}"

    def stop(self) -> None:
        """End the program's process group: SIGTERM to its root, then SIGKILL to all."""
        end(self.process, STOP_SECONDS, whole_group=True)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def _name(self) -> str:
        return self.command[0].rsplit("/", 1)[-1]

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-_TAIL_LINES:]) or "no message"


def wait_accepting(
    process: subprocess.Popen[bytes],
    address: str,
    port: int,
    said: Callable[[], str],
    timeout_s: float = START_SECONDS,
) -> float:
    """Wait until the process's port accepts; return the seconds that took. `said` returns its output.

    Raises:
        BenchError: the process ended, or the time is up; with what it said.
    """
    began = time.monotonic()
    while not accepts(address, port):
        if process.poll() is not None:
            raise BenchError(f"ended with {process.returncode}: {said()}")
        if time.monotonic() - began > timeout_s:
            raise BenchError(f"{address}:{port} did not accept within {timeout_s:g} s: {said()}")
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began


def end(
    process: subprocess.Popen[bytes], timeout_s: float = STOP_SECONDS, *, whole_group: bool = False
) -> int:
    """Send SIGTERM, and SIGKILL after `timeout_s`; return the exit code.

    `whole_group` kills the process group, which must be the process's own (`start_new_session`).
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            if whole_group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    return process.wait()


@contextmanager
def suspended(pid: int) -> Iterator[None]:
    """Stop a process (SIGSTOP) inside the block: its sockets stay open, and none of its threads runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        # The threads stop when one of them has been scheduled to take the signal: on a busy machine that takes time.
        while not all(_is_stopped(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(") ")[2][0] == "T"
    except FileNotFoundError:  # the thread has ended
        return True


@contextmanager
def module_process(module: str, *arguments: str, timeout_s: float = START_SECONDS) -> Iterator[str]:
    """Run `python -m module` and yield the first line that it prints.

    The module must end when its stdin is closed, which happens when the block ends. A module that ended before that
    is an AssertionError.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.poll() is None, f"{module} ended with {process.returncode}"
        process.communicate(timeout=timeout_s)
