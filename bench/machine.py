"""Where the figures were taken: processor, kernel, Python, open-file limit.

Rules: only what helps another person to judge the figures; no host name, no path.
"""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path


def processor(cpuinfo: str) -> str:
    """The model from the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.machine()


def describe() -> dict[str, str]:
    """What to print about this machine, in order."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "processor": processor(Path("/proc/cpuinfo").read_text()),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "TCP congestion control": congestion.read_text().strip()
        if congestion.exists()
        else "unknown",
        "open files": str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
