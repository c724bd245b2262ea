"""The settled bytes of a read."""

from __future__ import annotations


class Settled:
    """The bytes of a read that are settled and not forwarded yet: buf[start:stop]. They survive a fault."""

    __slots__ = ("start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop
