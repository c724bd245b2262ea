"""The demo's child processes, and what they say: JSON lines from a child, command words to it.

Rules:
- Closing a child's standard input asks it to end, so it never outlives the demo. Its standard error goes to a file.
- A child that ends without its result, or does not answer in time, raises DemoError with its last lines.
- Counters are totals since the start; latencies are those since the previous status.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

import trio
from msgspec import Struct, json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

LAST_LINES = 15
Brokers = dict[int, str]
"""Node id to `host:port`."""
Command = Literal["start", "stop", "report"]
"""Start to flood, stop flooding, and: report a ClientStatus now."""


class ClusterReady(Struct, frozen=True, tag=True):
    """The embedded cluster listens; every broker leads a partition of `topic`."""

    brokers: Brokers
    topic: str
    partitions: int


class ClientReady(Struct, frozen=True, tag=True):
    """A producer knows its topic, or a reader has its first assignment."""


class ClientStatus(Struct, frozen=True, tag=True):
    """A client's totals so far. Times are nanoseconds of the machine's monotonic clock."""

    requests_per_s: float = 0.0
    acked: int = 0
    consumed: int = 0
    latencies_us: list[int] = []
    """One for each record acked or consumed since the previous status."""
    at_ns: int = 0
    answered: int = 0
    """Requests answered, as the client library counts them; 0 if it does not."""
    answered_at_ns: int = 0
    """When the library counted."""
    outstanding: int = 0
    """Records sent, and neither acked nor failed."""


class ClientResult(Struct, frozen=True, tag=True):
    """A client's last message: its books, and the brokers that its metadata named."""

    count: int
    """Records acked or consumed."""
    failed: int
    brokers: Brokers
    numbers: dict[str, list[int]] = {}
    """The numbers of those records by stream (`producer/partition`), in the order they were seen.
    Empty for a producer whose records are not read back.
    """


Message = ClusterReady | ClientReady | ClientStatus | ClientResult
Expected = TypeVar("Expected", bound=Message)

_encoder = json.Encoder()
_decoder: json.Decoder[Message] = json.Decoder(Message)


def send(message: Message) -> None:
    """Write one message to standard output and flush it."""
    sys.stdout.buffer.write(_encoder.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def decode(line: bytes) -> Message:
    """Return the message of one line. Raises msgspec.DecodeError if the line is not a message."""
    return _decoder.decode(line)


class Commands:
    """The commands from standard input, read in a thread of their own; unknown words are skipped."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        """Set when standard input has ended: the process has to end, too."""
        self._waiting: SimpleQueue[Command] = SimpleQueue()
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def maybe_next(self) -> Command | None:
        """Return the oldest command not taken yet, or None."""
        return None if self._waiting.empty() else self._waiting.get()

    def _read(self) -> None:
        known: dict[bytes, Command] = {word.encode(): word for word in get_args(Command)}
        for line in sys.stdin.buffer:
            if command := known.get(line.strip()):
                self._waiting.put(command)
        self.ended.set()


class DemoError(Exception):
    """The demo cannot be completed; the message says why."""


def environment() -> dict[str, str]:
    """Return this process's environment without Sluice's settings, which would change the demo's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}


class ChildProcess:
    """A Python module that runs as a process. With `is_silent` it sends no messages: all output goes to its log."""

    def __init__(
        self, name: str, module: Sequence[str], folder: Path, *, is_silent: bool = False
    ) -> None:
        self.name = name
        self._command = [sys.executable, "-m", *module]
        self._is_silent = is_silent
        self._log = folder / f"{name}.log"
        self._process: trio.Process | None = None
        self._received: list[Message] = []
        self._changed = trio.Condition()
        self._ended = False

    @property
    def process(self) -> trio.Process:
        """Return the running process. Raises DemoError before `start`."""
        if self._process is None:
            raise DemoError(f"{self.name} was not started")
        return self._process

    async def start(
        self, nursery: trio.Nursery, on_message: Callable[[Message], None] = lambda _: None
    ) -> None:
        """Start the process and receive its messages in the background."""
        with self._log.open("wb") as log:
            self._process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log if self._is_silent else subprocess.PIPE,
                stderr=log,
                env=environment(),
            )
        if self._process.stdout is not None:
            nursery.start_soon(self._receive, self._process.stdout, on_message)

    async def _receive(
        self, stream: trio.abc.ReceiveStream, on_message: Callable[[Message], None]
    ) -> None:
        rest = b""
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = decode(line)
                on_message(message)
                async with self._changed:
                    self._received.append(message)
                    self._changed.notify_all()
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def expect(self, kind: type[Expected], timeout_s: float, since: int = 0) -> Expected:
        """Return its first message of this kind after the first `since` messages; wait for it if necessary.

        Raises DemoError when the process ends first, or after `timeout_s`.
        """
        with trio.move_on_after(timeout_s):
            async with self._changed:
                while True:
                    for message in self._received[since:]:
                        if isinstance(message, kind):
                            return message
                    if self._ended:
                        raise self._ended_early()
                    await self._changed.wait()
        raise DemoError(
            f"{self.name}: no {kind.__name__} within {timeout_s:.0f} s\n{self.last_lines()}"
        )

    async def command(self, command: Command) -> None:
        """Send it a command. Raises DemoError when it has ended."""
        if self.process.stdin is not None:
            try:
                await self.process.stdin.send_all(command.encode() + b"\n")
            except trio.BrokenResourceError as error:
                raise self._ended_early() from error

    async def ask(self, command: Command, kind: type[Expected], timeout_s: float) -> Expected:
        """Send it a command, and return its next message of this kind. Raises as `expect`."""
        since = len(self._received)
        await self.command(command)
        return await self.expect(kind, timeout_s, since)

    async def finish(self, timeout_s: float) -> ClientResult:
        """Ask it to end, and return its result. Raises as `expect`."""
        await self.close_input()
        result = await self.expect(ClientResult, timeout_s)
        await self.process.wait()
        return result

    async def close_input(self) -> None:
        """Close its standard input, which asks it to end."""
        if self.process.stdin is not None:
            await self.process.stdin.aclose()

    async def kill(self) -> None:
        """Kill it and close its pipes; do nothing if it was never started."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await trio.aclose_forcefully(stream)

    def check_running(self) -> None:
        """Raise DemoError if it has ended."""
        if self.process.poll() is not None:
            raise self._ended_early()

    def last_lines(self) -> str:
        """Return the end of its log, each line with the process's name."""
        if not self._log.exists():
            return ""
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(f"  {self.name}: {line}" for line in lines[-LAST_LINES:])

    def _ended_early(self) -> DemoError:
        return DemoError(f"{self.name} ended too early\n{self.last_lines()}")
