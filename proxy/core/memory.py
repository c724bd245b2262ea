"""Every byte held is counted here, and given back exactly once (after KIP-72's SimpleMemoryPool).

Held means: read from one socket and not yet written to the other: partial headers, frames kept whole,
unsent remainders, replies waiting for their turn. What streams through the scratch buffer is not held.
"""

from __future__ import annotations


class MemoryPool:
    """Counts bytes against a size. `size_bytes` 0 means without bound: counted all the same.

    `try_allocate` refuses rather than waits. It is non-strict, as the broker's own pool is: while anything
    is left, one request may overdraw, so that a large one can always get in.
    """

    __slots__ = ("peak_bytes", "size_bytes", "used_bytes")

    def __init__(self, size_bytes: int = 0) -> None:
        if size_bytes < 0:
            raise ValueError("size_bytes must not be negative")
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self.peak_bytes = 0

    def try_allocate(self, size_bytes: int) -> bool:
        """Take `size_bytes`, or refuse because nothing is left."""
        if self.is_out_of_memory():
            return False
        self.force_allocate(size_bytes)
        return True

    def force_allocate(self, size_bytes: int) -> None:
        """Take `size_bytes` that are already in our hands; they cannot be refused any more."""
        self.used_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def release(self, size_bytes: int) -> None:
        """Give back what was taken."""
        if size_bytes > self.used_bytes:
            raise ValueError(f"released {size_bytes} of {self.used_bytes} bytes held")
        self.used_bytes -= size_bytes

    def available_memory(self) -> int | None:
        """Bytes left (negative after an overdraft); None without bound."""
        return self.size_bytes - self.used_bytes if self.size_bytes else None

    def is_out_of_memory(self) -> bool:
        """Whether the next allocation would be refused."""
        return bool(self.size_bytes) and self.used_bytes >= self.size_bytes
