"""What of a read is settled."""

from __future__ import annotations


class Settled:
    """What of a read is settled and not handed on yet: buf[start:stop]. A fault loses nothing of it."""

    __slots__ = ("start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop
