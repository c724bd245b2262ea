"""The time that all code reads below the event loop."""

from __future__ import annotations


class StepTime:
    """The time at which the current step began. The base of SharedState: sessions read it for each request."""

    __slots__ = ("now_ms", "now_us")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        """Milliseconds since the epoch."""
        self.now_us = now_ms * 1000
        """The same in microseconds."""
