"""A part of the request pool: that of ordinary requests, or that of larger ones.

Each part may be exceeded by one request, its `first`: so each request that has begun can end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.memory.waiting_line import WaitingLine

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim


class PoolPart:
    """The requests of ordinary size, or the larger ones: those that wait, and the one that may exceed the part."""

    __slots__ = ("first", "is_large", "line")

    def __init__(self, *, is_large: bool) -> None:
        self.is_large = is_large
        self.line: WaitingLine[MemoryClaim] = WaitingLine()
        self.first: MemoryClaim | None = None

    @property
    def first_bytes(self) -> int:
        """Return the bytes reserved by the request that may exceed the part."""
        return 0 if self.first is None else self.first.reserved_bytes

    @property
    def first_missing_bytes(self) -> int:
        """Return the bytes that it may still reserve."""
        return 0 if self.first is None else self.first.whole_bytes - self.first.reserved_bytes
