"""One watched file: which content counts, and which problem is new.

Rules:
- The file is read every POLL_MS. A new content counts when two readings in a row have found it, so one that an editor
  is still writing does not. A link that is swapped, as in volumes of Kubernetes, is a new content like any other.
- While the file cannot be read, the last content counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_MS: Final = 1_000
MAX_FILE_BYTES: Final = 1 << 20


class Alarm(Protocol):
    """A call at a time."""

    @property
    def cancelled(self) -> bool:
        """Whether it was given up, or has been made."""

    def cancel(self) -> None:
        """Give it up."""


class FileWatch:
    """The state of one watched file. `content` is the one that the policy has."""

    def __init__(
        self, path: str, max_bytes: int, content: bytes, on_change: Callable[[bytes], None]
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.content = content
        self.on_change = on_change
        self.alarm: Alarm | None = None
        """The next look at the file."""
        self._next = content
        self._problem = ""

    def changed(self, result: object) -> bool:
        """Note a reading, or the error in its place; return whether `content` is another now."""
        if not isinstance(result, bytes):
            return False
        is_settled, self._next = result == self._next, result
        if not is_settled or result == self.content:
            return False
        self.content = result
        return True

    def new_problem(self, result: object) -> str:
        """Return why the file cannot be read; "" if it can, or if that is known."""
        before, self._problem = self._problem, ""
        if isinstance(result, Exception):
            words = getattr(result, "strerror", None) or str(result)
            self._problem = f"{type(result).__name__}: {words}"
        return "" if self._problem == before else self._problem
