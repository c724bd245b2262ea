"""The limit of open files of the process, and how many clients fit below it."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

RESERVED: Final = 64
"""File descriptors left for files, pipes and libraries."""


def connection_limit(max_connections: int, others: int) -> int:
    """Return how many clients may connect: `max_connections` (0: no such limit), or fewer if descriptors are short.

    A client needs two descriptors; `others` is the number that listeners and admin connections use. The soft limit is
    raised to the hard limit first.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems refuse an unlimited soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (soft - RESERVED - others) // 2)
    return min(max_connections, possible) if max_connections else possible
