"""Writes the counts of lines that were left out when no later line comes to carry them.

Rules:
- Nothing wakes while no line is left out. After the first one, `run` asks once a second, until all is told.
- Any thread and task may leave out a line, so it is Trio that wakes, and no timer of the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S: Final = 1.0


class LastCounts:
    """Calls functions that write counts, each of which returns whether it still keeps some."""

    def __init__(self, tell: Callable[[], bool]) -> None:
        self._tell = [tell]
        self._wake: Callable[[], None] | None = None
        self._is_noted = False

    def add(self, tell: Callable[[], bool]) -> None:
        """Call this function too."""
        self._tell.append(tell)

    def note(self) -> None:
        """Wake `run`: a line was left out. Any thread may call this."""
        self._is_noted = True
        if self._wake is not None:
            self._wake()

    async def run(self) -> None:
        """Tell the counts until cancelled."""
        token = trio.lowlevel.current_trio_token()
        while True:
            noted = trio.Event()
            self._wake = lambda event=noted: token.run_sync_soon(event.set, idempotent=True)
            if not self._is_noted:
                await noted.wait()
            self._wake, self._is_noted = None, False
            await trio.sleep(EVERY_S)
            for tell in self._tell:
                self._is_noted |= tell()
