"""A child process of the demo that speaks `messages`.

Rules:
- Standard input is its lifeline: closing it asks for the end. Standard error goes to a file.
- A child that ends without its Final, or keeps us waiting, is a `StageError` with its last lines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, TypeVar

import trio

from proxy.demo.messages import Cue, Final, Message, hear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

LAST_LINES = 15
Wanted = TypeVar("Wanted", bound=Message)


class StageError(Exception):
    """The demo could not be played to its end; the text says why."""


def environment() -> dict[str, str]:
    """Return our environment without settings of Sluice: the demo shows what its own line says."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}


class Child:
    """One process; one that does not speak `messages` has both its outputs in the log."""

    def __init__(
        self, name: str, module: Sequence[str], folder: Path, *, speaks: bool = True
    ) -> None:
        self.name = name
        self._command = [sys.executable, "-m", *module]
        self._speaks = speaks
        self._log = folder / f"{name}.log"
        self._process: trio.Process | None = None
        self._said: list[Message] = []
        self._news = trio.Condition()
        self._ended = False

    @property
    def process(self) -> trio.Process:
        """The running process."""
        if self._process is None:
            raise StageError(f"{self.name} was not started")
        return self._process

    async def start(
        self, nursery: trio.Nursery, on_message: Callable[[Message], None] = lambda _: None
    ) -> None:
        """Start it and hear it in the background."""
        with self._log.open("wb") as log:
            self._process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self._speaks else log,
                stderr=log,
                env=environment(),
            )
        if self._process.stdout is not None:
            nursery.start_soon(self._listen, self._process.stdout, on_message)

    async def _listen(
        self, stream: trio.abc.ReceiveStream, on_message: Callable[[Message], None]
    ) -> None:
        rest = b""
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message = hear(line)
                on_message(message)
                async with self._news:
                    self._said.append(message)
                    self._news.notify_all()
        async with self._news:
            self._ended = True
            self._news.notify_all()

    async def expect(self, kind: type[Wanted], patience_s: float, since: int = 0) -> Wanted:
        """Wait until it has said a message of this kind, and return that; the first `since` of its
        messages do not count.
        """
        with trio.move_on_after(patience_s):
            async with self._news:
                while True:
                    for message in self._said[since:]:
                        if isinstance(message, kind):
                            return message
                    if self._ended:
                        raise StageError(f"{self.name} ended too early\n{self.last_lines()}")
                    await self._news.wait()
        raise StageError(
            f"{self.name}: no {kind.__name__} within {patience_s:.0f} s\n{self.last_lines()}"
        )

    async def cue(self, cue: Cue) -> None:
        """Say a word to it."""
        if self.process.stdin is not None:
            try:
                await self.process.stdin.send_all(cue.encode() + b"\n")
            except trio.BrokenResourceError as error:
                raise StageError(f"{self.name} ended too early\n{self.last_lines()}") from error

    async def ask(self, cue: Cue, kind: type[Wanted], patience_s: float) -> Wanted:
        """Say a word to it, and return its next message of this kind."""
        heard = len(self._said)
        await self.cue(cue)
        return await self.expect(kind, patience_s, since=heard)

    async def finish(self, patience_s: float) -> Final:
        """Ask it to end, and return its last word."""
        await self.hang_up()
        final = await self.expect(Final, patience_s)
        await self.process.wait()
        return final

    async def hang_up(self) -> None:
        """Close its standard input."""
        if self.process.stdin is not None:
            await self.process.stdin.aclose()

    async def kill(self) -> None:
        """End it, whatever it does, and let go of it; nothing if it never ran."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await trio.aclose_forcefully(stream)

    def last_lines(self) -> str:
        """Return the end of what it wrote to standard error."""
        if not self._log.exists():
            return ""
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(f"  {self.name}: {line}" for line in lines[-LAST_LINES:])
