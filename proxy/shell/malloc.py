"""Freed memory returns to the system: large blocks are allocated outside the C library's heap.

glibc puts large blocks into mappings of their own only until the first is freed. From then on blocks of up to 32 MiB
come from its heap, where a growing frame is copied and leaves holes. With a dozen frames of up to
16 MiB growing side by side that was 1.6 times what was held (281 MiB for 175). A fixed threshold keeps it
at 1.02 times, for some page faults per large frame; what streams is never so large.
"""

from __future__ import annotations

import ctypes

THRESHOLD_BYTES = 512 << 10
"""Larger than any read."""
_M_MMAP_THRESHOLD = -3


def map_large_pieces() -> bool:
    """Fix the threshold for this process; return False where the C library has none (musl, macOS)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, THRESHOLD_BYTES))


def return_freed_memory() -> bool:
    """Give what the C library holds in reserve back to the system; return False where it cannot (musl, macOS)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return False
    trim(0)
    return True
