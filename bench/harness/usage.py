"""CPU time and resident memory of a process and its descendants, from /proc.

CPU time is the scheduler's nanoseconds, of all threads, also of those that have ended. The peak is the kernel's VmHWM,
which sampling would miss; `reset_peak` sets it to the current resident size. The sum of the peaks is never less than
the peak of the sum.
"""

import time
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_SCHEDULED: Final = 2
"""The kind of CPU clock that has the scheduler's precision."""
_RESET_PEAK: Final = "5"
"""Written to /proc/PID/clear_refs it sets VmHWM to VmRSS (proc(5))."""


def tree(root: int) -> list[int]:
    """Return the ids of a process and its descendants, the root first."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has ended
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:  # the list grows while it is read
        found.extend(children.get(pid, ()))
    return found


def children(parent: int) -> list[int]:
    """Return the ids of the processes that a process has started, without their own."""
    found: list[int] = []
    for task in (PROC / str(parent) / "task").iterdir():
        found.extend(map(int, (task / "children").read_text().split()))
    return found


def cpu_ns(root: int) -> int:
    """Return the CPU time of the process tree in nanoseconds."""
    return sum(map(own_cpu_ns, tree(root)))


def own_cpu_ns(pid: int) -> int:
    """Return the CPU time of one process by its CPU clock, whose number is Linux's (clock_getcpuclockid(3)).

    Raises:
        OSError: it has ended.
    """
    return time.clock_gettime_ns(~pid << 3 | _SCHEDULED)


def resident_bytes(root: int) -> int:
    """Return the resident memory of the process tree; shared pages count once for each process."""
    return sum(field_bytes(_status(pid), "VmRSS") for pid in tree(root))


def peak_bytes(root: int) -> int:
    """Return the peak of the resident memory since the process began or `reset_peak` was called."""
    return sum(field_bytes(_status(pid), "VmHWM") for pid in tree(root))


def reset_peak(root: int) -> None:
    """Set the peak of every process of the tree to its current resident size."""
    for pid in tree(root):
        (PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)


def field_bytes(status: str, name: str) -> int:
    """Return a field of /proc/PID/status in bytes (the file has KiB); 0 if it is missing, as in a zombie's."""
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0


def _status(pid: int) -> str:
    try:
        return (PROC / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return ""
