"""The log of one policy entry: lines of the event `policy_message`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MessageLevel = Literal["debug", "info", "warning", "error"]
MAX_EARLY = 20
"""Lines that are kept until the policy serves; a policy that is only checked logs nothing."""


class PolicyLog:
    """Writes lines with a message and fields. No call blocks or raises; lines beyond the log's limits are counted.

    A field is a text, a number, a truth value or None; of other values the log shows a cut `repr`. Never log payload.
    """

    def __init__(self) -> None:
        self._early: list[tuple[MessageLevel, str, Mapping[str, object]]] = []
        self._write: Callable[[MessageLevel, str, Mapping[str, object]], None] | None = None

    def debug(self, message: str, /, **fields: object) -> None:
        """Log at level debug."""
        self._log("debug", message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Log at level info."""
        self._log("info", message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        """Log at level warning."""
        self._log("warning", message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        """Log at level error."""
        self._log("error", message, fields)

    def connect(self, write: Callable[[MessageLevel, str, Mapping[str, object]], None]) -> None:
        """Use this function from now on, first for the lines that were kept. Called by the proxy."""
        self._write = write
        early, self._early = self._early, []
        for each in early:
            self._log(*each)

    def _log(self, level: MessageLevel, message: str, fields: Mapping[str, object]) -> None:
        if self._write is not None:
            with suppress(Exception):
                self._write(level, message, fields)
        elif len(self._early) < MAX_EARLY:
            self._early.append((level, message, fields))
