"""What the system says of this process: memory, CPU time, descriptors. From /proc; zeros where there is none."""

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
    """As it is now."""
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


def _open_fds(folder: Path, *, told: bool | None = None) -> int:
    """How many there are. A listing costs 1 to 2 microseconds each: with thousands of clients too much for a look
    every second. Since Linux 6.2 the kernel tells the number as the folder's size.
    """
    if _TOLD if told is None else told:
        return folder.stat().st_size
    return len(os.listdir(folder)) - 1  # noqa: PTH208 - no path objects; one is the listing's own


def _is_told(folder: Path = _PROC / "self/fd") -> bool:
    try:
        return 0 < folder.stat().st_size == _open_fds(folder, told=False)
    except OSError:
        return False


def _started_s(proc: Path = _PROC) -> float:
    """When the process began; now, where nobody knows."""
    try:
        # The 22nd field; the second is the program's name in brackets, and may itself contain some.
        ticks = int((proc / "self/stat").read_text().rpartition(")")[2].split()[19])
        since_boot_s = float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - since_boot_s + ticks / os.sysconf("SC_CLK_TCK")


STARTED_S = _started_s()
_TOLD = _is_told()
