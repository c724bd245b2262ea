"""Starts programs on a chosen core and reads what their whole process tree used.

Rules: a child is placed by moving ourselves there first, so that its threads are born in place;
CPU time is the scheduler's own nanoseconds, summed over every thread of every process of the
tree; resident memory is the sum of the tree's; only processes started here are ever ended, by
their id.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from bench.build import BenchError

PROC = Path("/proc")


def raise_descriptor_limit() -> int:
    """Lifts the soft limit on open files to the hard one, which children inherit; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def cores() -> tuple[int, int]:
    """(the proxies' core, the core of load and broker); the same one if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


class Program:
    """A child process pinned to one core. Its stderr goes to a file, for when it dies."""

    def __init__(self, command: list[str], core: int, log: Path) -> None:
        self.command = command
        self.log = log
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            with log.open("wb") as errors:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if command[0].endswith("load") else errors,
                    stderr=errors,
                    start_new_session=True,
                )
        finally:
            os.sched_setaffinity(0, before)

    @property
    def pid(self) -> int:
        """The process id of the tree's root."""
        return self.process.pid

    def line(self, timeout_seconds: float) -> str:
        """The next line of its stdout."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_seconds)
        text = self.process.stdout.readline().decode() if ready else ""
        if not text:
            self.stop()
            raise BenchError(self.last_words("said nothing"))
        return text

    def say(self, text: str) -> None:
        """Writes to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def last_words(self, what: str) -> str:
        """A message about it with the end of its stderr."""
        tail = self.log.read_text(errors="replace").strip().splitlines()[-2:]
        return f"{self.command[0].rsplit('/', 1)[-1]} {what}: " + (" | ".join(tail) or "no message")

    def stop(self) -> None:
        """Ends it: politely, then not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)  # its own session: nobody else's
                self.process.wait(3)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def tree(root: int) -> list[int]:
    """The ids of a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # gone meanwhile
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:  # grows while it is walked
        found.extend(children.get(pid, ()))
    return found


def cpu_ns(root: int) -> int:
    """CPU time of a process tree so far, nanoseconds, from /proc/PID/task/TID/schedstat."""
    total = 0
    for pid in tree(root):
        for thread in (PROC / str(pid) / "task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    return total


def resident_bytes(root: int) -> int:
    """Resident memory of a process tree (shared pages count in each process)."""
    total = 0
    for pid in tree(root):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def free_ports(count: int, start: int) -> int:
    """The first of `count` neighbouring free ports from `start` on, below the ephemeral range."""
    for first in range(start, 32000 - count):
        if all(_is_free(first + k) for k in range(count)):
            return first
    raise BenchError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_accepting(program: Program, port: int, timeout_seconds: float = 30) -> float:
    """Seconds until the port accepts, as this process sees it.

    Raises:
        BenchError: the program died, or time is up.
    """
    began = time.monotonic()
    while time.monotonic() - began < timeout_seconds:
        if program.process.poll() is not None:
            raise BenchError(program.last_words(f"ended with {program.process.returncode}"))
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return time.monotonic() - began
        time.sleep(0.001)
    program.stop()
    raise BenchError(program.last_words(f"does not accept on {port}"))
