"""The one time: the epoch read once at start plus monotonic elapsed time. It never jumps."""

from __future__ import annotations

import time

from proxy.shell import system_calls


class Clock:
    """A callable that returns `now_ms`."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Return milliseconds since the epoch: the wall clock at start plus elapsed time. Never goes back."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def now_us(self) -> int:
        """Return the same time in microseconds."""
        now_ns = system_calls.monotonic_ns()
        return (now_ns + self._offset_ns) // 1000

    def drift_ms(self) -> int:
        """Return how many milliseconds the wall clock is ahead. It is reported, never corrected in flight."""
        return time.time_ns() // 1_000_000 - self()
