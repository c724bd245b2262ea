"""The one time: the epoch read once at start plus monotonic elapsed time. It never jumps."""

from __future__ import annotations

import time


class Clock:
    """Call it for `now_ms`."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Milliseconds since the epoch, as of start; never backwards."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def now_us(self) -> int:
        """The same in microseconds."""
        return (time.monotonic_ns() + self._offset_ns) // 1000

    def drift_ms(self) -> int:
        """How far the wall clock has moved away since start. Reported, never corrected in flight."""
        return time.time_ns() // 1_000_000 - self()
