"""The time that all code reads below the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.core.purgatory.timers import Timers
    from proxy.core.turns import Turns


class StepTime:
    """The time at which the current step began. The base of SharedState: sessions read it for each request."""

    __slots__ = ("now_ms", "now_us", "timers", "turns")

    timers: Timers
    turns: Turns

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        """Milliseconds since the epoch."""
        self.now_us = now_ms * 1000
        """The same in microseconds."""
