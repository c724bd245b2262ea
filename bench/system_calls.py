"""Counts the system calls of a running process, where `perf` may trace them.

Those of the slow kinds show back-pressure. A proxy in its ordinary state has no send that fails, and changes
no mask of its poll set.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

EVENTS: Final = (
    ("sends", "syscalls:sys_enter_sendto", ""),
    ("failed_sends", "syscalls:sys_exit_sendto", "ret < 0"),
    ("receives", "syscalls:sys_enter_recvfrom", ""),
    ("waits", "syscalls:sys_enter_epoll_wait", ""),
    ("mask_changes", "syscalls:sys_enter_epoll_ctl", ""),
)


class Calls(NamedTuple):
    """System calls by kind."""

    sends: int
    failed_sends: int
    receives: int
    waits: int
    mask_changes: int

    def per_1000_sends(self, count: int) -> float:
        """Return the count for each thousand sends; 0 if there were none."""
        return 1000 * count / self.sends if self.sends else 0.0


def count_calls(pid: int, seconds: float, scratch: Path) -> Calls | None:
    """Count the calls of a process and its threads for so long; None where that is not possible."""
    perf = shutil.which("perf")
    if perf is None:
        return None
    events = [part for _, event, only in EVENTS for part in _event(event, only)]
    command = [perf, "stat", "-x,", "-o", str(scratch), "-p", str(pid), *events]
    done = subprocess.run([*command, "--", "sleep", f"{seconds}"], capture_output=True, check=False)
    return parse(scratch.read_text()) if done.returncode == 0 else None


def _event(event: str, only: str) -> list[str]:
    return ["-e", event, *(["--filter", only] if only else [])]


def parse(said: str) -> Calls | None:
    """Return the counts of the output of `perf stat -x,`; None if one of them was not counted."""
    found = {}
    for line in said.splitlines():
        count, _, event, *_ = [*line.split(","), "", ""]
        if event:
            found[event] = count
    try:
        return Calls(*(int(found[event]) for _, event, _ in EVENTS))
    except (KeyError, ValueError):
        return None
