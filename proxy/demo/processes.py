"""The demo's child processes, and what they say: a command word to a client, a line of JSON from it.

Rules:
- A client answers each command with its ClientStatus; it speaks unasked only when it is ready and at its end.
- Closing a child's standard input asks it to end, so it never outlives the demo. Its standard error goes to a file.
- A child that ends too early, or does not answer in time, raises DemoError with its last lines.
- Counters are totals since the start; latencies and throttle times are those since the previous status.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from msgspec import Struct, json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMEOUT_S = 120.0
LAST_LINES = 15
Brokers = dict[int, str]
"""Node id to `host:port`."""
Command = Literal["start", "stop", "report"]


class DemoError(Exception):
    """The demo cannot be completed; the message says why."""


class ClusterReady(Struct, frozen=True):
    """The embedded cluster listens; every broker leads a partition of `topic`."""

    brokers: Brokers
    topic: str
    partitions: int


class ClientReady(Struct, frozen=True):
    """A client is connected to each leader of its topic."""

    brokers: Brokers
    """Those that its metadata names."""


class ClientStatus(Struct, frozen=True):
    """What a client has done so far."""

    at_ns: int
    """By the machine's monotonic clock."""
    acked: int
    outstanding: int
    """Records sent, and neither acked nor failed."""
    latencies_ms: list[float] = []
    """From passing a record to the library to its acknowledgement, for each record acked."""
    throttles_ms: list[int] = []
    """The `throttle_time_ms` of each reply that had one."""


class ClientResult(Struct, frozen=True):
    """A client's last message."""

    acked: int
    failed: int
    """Records rejected, or unanswered at the end."""
    lost: int = 0
    """Records acked and not read back."""
    out_of_order: int = 0
    """Records read back twice, or after a later one of their partition."""


Message = TypeVar("Message", ClusterReady, ClientReady, ClientStatus, ClientResult)


def send(message: ClusterReady | ClientReady | ClientStatus | ClientResult) -> None:
    """Write one message to standard output and flush it."""
    sys.stdout.buffer.write(json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def maybe_command() -> str | None:
    """Return the next command from standard input, None if there is none now, "" when it has ended."""
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return sys.stdin.readline().strip() if readable else None


def environment() -> dict[str, str]:
    """Return this process's environment without Sluice's settings, which would change the demo's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}


class ChildProcess:
    """A Python module that runs as a process until the end of the `with` block.

    With `is_silent` it sends no messages: all its output goes to its log.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, *, is_silent: bool = False
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._rest = b""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=log if is_silent else subprocess.PIPE,
                stderr=log,
                env=environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.close_input()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def expect(self, kind: type[Message], timeout_s: float = TIMEOUT_S) -> Message:
        """Return its next message, which is of this kind. Raises DemoError."""
        if self.process.stdout is None:
            raise DemoError(f"{self.name} sends no messages")
        output, deadline_s = self.process.stdout.fileno(), time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(output, select.POLLIN)
        while b"\n" not in self._rest:
            if not poller.poll(max(0, deadline_s - time.monotonic()) * 1000):
                missing = f"no {kind.__name__} within {timeout_s:.0f} s"
                raise DemoError(f"{self.name}: {missing}\n{self.last_lines()}")
            chunk = os.read(output, 1 << 16)
            if not chunk:
                raise self._ended_early()
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.decode(line, type=kind)

    def ask(self, command: Command) -> ClientStatus:
        """Give a client a command, and return its status. Raises DemoError."""
        if self.process.stdin is not None:
            try:
                self.process.stdin.write(command.encode() + b"\n")
                self.process.stdin.flush()
            except BrokenPipeError as error:
                raise self._ended_early() from error
        return self.expect(ClientStatus)

    def finish(self) -> ClientResult:
        """Ask a client to end, and return its result. Raises DemoError."""
        self.close_input()
        return self.expect(ClientResult)

    def close_input(self) -> None:
        """Close its standard input, which asks it to end."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # a command that it did not read any more
                self.process.stdin.close()

    def last_lines(self) -> str:
        """Return the end of its log, each line with the process's name."""
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(f"  {self.name}: {line}" for line in lines[-LAST_LINES:])

    def _ended_early(self) -> DemoError:
        return DemoError(f"{self.name} ended too early\n{self.last_lines()}")
