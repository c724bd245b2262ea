"""How much memory a proxy held, and the most it ever did.

Rules: the most is the kernel's own mark (VmHWM), which cannot miss a peak as sampling does; it is set back to what is
resident when a measurement begins. Of a proxy with several processes their figures are added, so the sum of the most
is never less than the most of the sum.
"""

from __future__ import annotations

from typing import Final

from bench.processes import PROC, tree

FORGET_MOST: Final = "5"
"""Written to /proc/PID/clear_refs: VmHWM becomes VmRSS (proc(5))."""


def resident_bytes(root: int) -> int:
    """What is resident now, of a process and all that descend from it."""
    return sum(field_bytes(_status(pid), "VmRSS") for pid in tree(root))


def most_resident_bytes(root: int) -> int:
    """The most that was resident since `forget_most`."""
    return sum(field_bytes(_status(pid), "VmHWM") for pid in tree(root))


def forget_most(root: int) -> None:
    """Count the most from now on."""
    for pid in tree(root):
        (PROC / str(pid) / "clear_refs").write_text(FORGET_MOST)


def field_bytes(status: str, name: str) -> int:
    """A figure of the text of /proc/PID/status, given there in KiB; 0 if it has none (a process that is ending)."""
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0


def _status(pid: int) -> str:
    try:
        return (PROC / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return ""
