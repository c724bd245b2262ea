"""The requests of one crowded session that wait for replies, and the memory that they take.

`crowding` decides when they are counted. An exchange costs EXCHANGE_BYTES or OBSERVED_BYTES, and the kept bytes of a
produce.
"""

from __future__ import annotations

from collections import deque
from typing import Final

UNCOUNTED: Final = 16
"""The most requests of a connection that may wait for replies before their memory is counted: deeper than the
pipelines of the usual clients (Java: 5)."""
CROWDED: Final = -1
"""The threshold of a session that must be counted at the end of this read: any queue is longer."""
EXCHANGE_BYTES: Final = 120
"""The size of an Exchange, its integers and its place in the queue; measured in the tests."""
OBSERVED_BYTES: Final = 232
"""The size of an ObservedExchange, its integers and its place in the queue."""
SWALLOWED_BYTES: Final = 96
"""The size of a SwallowedExchange: a request that was answered here."""
KEPT_BYTES: Final = 1024
"""The most bytes that are kept of nearly every produce (`frame_heads.MAX_KEPT_BYTES`)."""
KEPT_OBJECT_BYTES: Final = 57
"""The size of the object that keeps these bytes."""
_PIECE: Final = 64


class InFlight:
    """The counted requests: pieces of [exchanges, bytes], in the order of the session's queue."""

    __slots__ = ("bytes", "count", "pieces")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.pieces: deque[list[int]] = deque()

    @property
    def threshold(self) -> int:
        """Return the length of the queue above which it must be counted again."""
        return self.count + UNCOUNTED

    def add_kept(self, size_bytes: int) -> None:
        """Count kept bytes of the request that is added next."""
        self.bytes += size_bytes
        self.pieces.append([0, size_bytes])

    def clear(self) -> int:
        """Forget all requests; return their counted bytes."""
        size_bytes, self.bytes = self.bytes, 0
        self.count = 0
        self.pieces.clear()
        return size_bytes

    def add(self, count: int, size_bytes: int) -> None:
        """Count the newest `count` requests of `size_bytes`. Reads of few requests share a piece."""
        self.count += count
        self.bytes += size_bytes
        pieces = self.pieces
        if pieces and pieces[-1][0] < _PIECE:
            pieces[-1][0] += count
            pieces[-1][1] += size_bytes
        else:
            pieces.append([count, size_bytes])

    def take(self, count: int) -> int:
        """Forget the oldest `count` requests; return their counted bytes (part of a piece: its average)."""
        self.count -= count
        taken_bytes = 0
        pieces = self.pieces
        while count and pieces:
            piece = pieces[0]
            if piece[0] <= count:
                count -= piece[0]
                taken_bytes += piece[1]
                pieces.popleft()
            else:
                part_bytes = piece[1] * count // piece[0]
                piece[0] -= count
                piece[1] -= part_bytes
                taken_bytes += part_bytes
                count = 0
        self.bytes -= taken_bytes
        return taken_bytes
