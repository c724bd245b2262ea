"""What is due later, on the engine's own clock. One lazily re-armed timer per waiting session.

A heap: adds and cancels are rare here (not per request).
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """One call at `at_ms`. `cancel` drops what it holds at once; the husk leaves when it is due."""

    __slots__ = ("_call", "at_ms")

    def __init__(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.at_ms = at_ms
        self._call: Callable[[int], None] | None = call

    def cancel(self) -> None:
        """It will not be called."""
        self._call = None

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, or has been called."""
        return self._call is None

    def fire(self, now_ms: int) -> None:
        """Call it, once."""
        call, self._call = self._call, None
        if call is not None:
            call(now_ms)


class Timers:
    """All timers of a process, soonest first; equal times in the order they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()

    def arm(self, at_ms: int, call: Callable[[int], None]) -> Timer:
        """Call `call(now_ms)` once `at_ms` has come."""
        timer = Timer(at_ms, call)
        heapq.heappush(self._heap, (at_ms, next(self._order), timer))
        return timer

    def advance(self, now_ms: int) -> None:
        """Fire whatever is due. A call may arm new timers; those due now fire too."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            heapq.heappop(heap)[2].fire(now_ms)

    def next_ms(self) -> int | None:
        """When the next timer is due; None when nothing is waiting."""
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
