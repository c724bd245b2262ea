"""Memory, CPU time and descriptors of this process, from /proc; zeros on systems without it."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_PAGE_BYTES = resource.getpagesize()


class ProcessFacts(NamedTuple):
    """Bytes, seconds, counts. `started_s` is Unix time."""

    resident_bytes: int
    cpu_s: float
    open_fds: int
    max_fds: int
    started_s: float


def read_process() -> ProcessFacts:
    """Return the figures of this moment."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    try:
        resident_bytes = int((_PROC / "self/statm").read_text().split()[1]) * _PAGE_BYTES
        open_fds = _open_fds(_PROC / "self/fd")
    except OSError:
        resident_bytes = open_fds = 0
    return ProcessFacts(
        resident_bytes,
        usage.ru_utime + usage.ru_stime,
        open_fds,
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        STARTED_S,
    )


def _open_fds(folder: Path, *, is_size: bool | None = None) -> int:
    """Return the number of open descriptors.

    Since Linux 6.2 it is the size of the folder. Listing the folder costs 1 to 2 microseconds for each descriptor, too
    much to do every second with thousands of clients.
    """
    if _IS_SIZE if is_size is None else is_size:
        return folder.stat().st_size
    return len(os.listdir(folder)) - 1  # noqa: PTH208 - no path objects; one is the listing's own


def _is_count_the_size(folder: Path = _PROC / "self/fd") -> bool:
    try:
        return 0 < folder.stat().st_size == _open_fds(folder, is_size=False)
    except OSError:
        return False


def _started_s(proc: Path = _PROC) -> float:
    """Return when the process began (Unix time in seconds); the present if that is not known."""
    try:
        # The 22nd field; the second is the program's name in brackets, and may itself contain brackets.
        ticks = int((proc / "self/stat").read_text().rpartition(")")[2].split()[19])
        since_boot_s = float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - since_boot_s + ticks / os.sysconf("SC_CLK_TCK")


STARTED_S = _started_s()
_IS_SIZE = _is_count_the_size()
