"""A memory limit like a container's: a cgroup of version 2 or 1, created and removed by the benchmark.

It is created at the top of the mounted hierarchy (in a container, the container's own), without swap beyond the limit.
`NoCgroupError` gives the reason if that is not permitted.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/mounts")
_REMOVE_SECONDS: Final = 5.0


class NoCgroupError(Exception):
    """A memory limit cannot be set here; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group with a memory limit. `version` is 1 or 2."""

    folder: Path
    version: int

    def entering(self) -> list[str]:
        """Return the prefix of a command that runs it inside the group from its start."""
        return ["sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs" && exec "$@"', "sh"]

    def peak_bytes(self) -> int:
        """Return the peak of the bytes charged to the group, page cache included."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return int((self.folder / name).read_text())

    def kills(self) -> int:
        """Return how many of its processes the kernel killed for lack of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", (self.folder / name).read_text(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextmanager
def memory_cgroup(limit_bytes: int, mounts: Path = MOUNTS) -> Iterator[Cgroup]:
    """Create a group with this limit for the duration of the block.

    Raises:
        NoCgroupError: it cannot be created.
    """
    top, version = _hierarchy(mounts.read_text())
    group = Cgroup(top / f"sluice-bench-{os.getpid()}-{time.monotonic_ns()}", version)
    try:
        if version == 2:
            (top / "cgroup.subtree_control").write_text("+memory")
        group.folder.mkdir()
        _limit(group, limit_bytes)
    except OSError as error:
        with suppress(OSError):
            group.folder.rmdir()
        raise NoCgroupError(f"cannot create a cgroup: {error.strerror}") from error
    try:
        yield group
    finally:
        _remove(group.folder)


def _hierarchy(mounts: str) -> tuple[Path, int]:
    """Return the folder and version of the memory controller; version 1 takes precedence over version 2."""
    for line in mounts.splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(where), 1
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split()
        controllers = Path(where) / "cgroup.controllers"
        if kind == "cgroup2" and controllers.exists() and "memory" in controllers.read_text():
            return Path(where), 2
    raise NoCgroupError("no memory controller is mounted")


def _limit(group: Cgroup, limit_bytes: int) -> None:
    if group.version == 2:
        (group.folder / "memory.max").write_text(str(limit_bytes))
        swap, value = group.folder / "memory.swap.max", "0"
    else:
        (group.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
        # Version 1 counts memory and swap together.
        swap, value = group.folder / "memory.memsw.limit_in_bytes", str(limit_bytes)
    if swap.exists():  # a kernel without swap accounting has no such file
        swap.write_text(value)


def _remove(folder: Path) -> None:
    """Remove the group; its last process may still be ending."""
    give_up = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)
        else:
            return
