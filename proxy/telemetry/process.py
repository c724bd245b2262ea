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
    """As it is now. Counting descriptors costs a microsecond each or less."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    try:
        resident_bytes = int((_PROC / "self/statm").read_text().split()[1]) * _PAGE_BYTES
        open_fds = sum(1 for _ in (_PROC / "self/fd").iterdir()) - 1  # one is the listing's own
    except OSError:
        resident_bytes = open_fds = 0
    return ProcessFacts(
        resident_bytes,
        usage.ru_utime + usage.ru_stime,
        open_fds,
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        STARTED_S,
    )


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
