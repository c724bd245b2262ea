"""The machine that the figures come from: processor, cores, kernel, Python, open-file limit.

Only what helps another person to judge the figures; no host name and no path.
"""

import datetime as dt
import os
import platform
import resource
from pathlib import Path


def processor(cpuinfo: str) -> str:
    """Return the model named in the text of /proc/cpuinfo, else the architecture."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.machine()


def describe() -> dict[str, str]:
    """Return the facts to print about this machine, in order."""
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


def load_average() -> str:
    """Return the load average of the last minute, which includes this benchmark."""
    return f"{os.getloadavg()[0]:.1f}"


def today() -> str:
    """Return the date and time, UTC, to the minute."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def cores() -> tuple[int, int]:
    """Return (the proxies' core, the core of load and broker); they are equal if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard limit, which children inherit; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
