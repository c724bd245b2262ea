"""Who uses this machine's CPU, as the kernel tells (Linux: proc_stat(5), proc_pid_stat(5)).

Rules:
- Interrupts are nobody's: most of them are the demo's own loopback traffic.
- Time that the machine below took away (steal) counts as others'.
- Where there is no `/proc`, the answer is None: not known, never "idle".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

PROC = Path("/proc")


class Used(NamedTuple):
    """Clock ticks since the machine started."""

    there_was: int
    """Of all CPUs, idle ones too."""
    by_all: int
    by_us: int


def maybe_used(pids: Iterable[int], proc: Path = PROC) -> Used | None:
    """Return what was used by all processes and by these; None where it cannot be seen."""
    try:
        line = (proc / "stat").read_text("ascii").splitlines()[0]
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
        by_us = sum(_used_by(proc / str(pid) / "stat") for pid in pids)
    except (OSError, ValueError):
        return None
    by_all = user + nice + system + steal
    return Used(by_all + idle + iowait + irq + softirq, by_all, by_us)


def maybe_others(before: Used | None, after: Used | None) -> float | None:
    """Return the share of the machine that others had in between, 0 to 1; None: not known."""
    if before is None or after is None or after.there_was == before.there_was:
        return None
    others = (after.by_all - before.by_all) - (after.by_us - before.by_us)
    return min(1.0, max(0.0, others / (after.there_was - before.there_was)))


def _used_by(stat: Path) -> int:
    # The name may hold spaces and parentheses; utime and stime are the 14th and 15th field.
    fields = stat.read_text("utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
