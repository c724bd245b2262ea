"""An alarm of a bench that can be given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class BenchAlarm:
    """A call at a time of the bench's clock."""

    def __init__(self, call: Callable[[int], None]) -> None:
        self._call: Callable[[int], None] | None = call

    @property
    def cancelled(self) -> bool:
        """Whether it was given up, or has been made."""
        return self._call is None

    def cancel(self) -> None:
        """Give it up."""
        self._call = None

    def ring(self, now_ms: int) -> None:
        """Make the call, unless it was given up."""
        call, self._call = self._call, None
        if call is not None:
            call(now_ms)
