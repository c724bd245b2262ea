"""A memory limit as a container has it: a cgroup of our own, version 2 or 1, made and removed by the benchmark.

Rules: it is made at the top of the hierarchy that is mounted here (in a container that is the container's own), with no
swap beyond the limit. Whoever may not make one is told why (`NoCgroupError`), and goes without.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTS: Final = Path("/proc/mounts")
_REMOVE_SECONDS: Final = 5.0


class NoCgroupError(Exception):
    """No memory limit can be set here; says why."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group with a memory limit. `version` is 1 or 2."""

    folder: Path
    version: int

    def entering(self) -> list[str]:
        """What to put before a command, so that it runs inside from its first byte on."""
        return ["sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs" && exec "$@"', "sh"]

    def most_bytes(self) -> int:
        """The most that was ever charged to it: page cache too."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return int((self.folder / name).read_text())

    def kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", (self.folder / name).read_text(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextmanager
def memory_cgroup(limit_bytes: int, mounts: Path = MOUNTS) -> Iterator[Cgroup]:
    """A group with this limit, for as long as the block lasts.

    Raises:
        NoCgroupError: it cannot be made.
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
        raise NoCgroupError(f"no cgroup can be made: {error.strerror}") from error
    try:
        yield group
    finally:
        _remove(group.folder)


def _hierarchy(mounts: str) -> tuple[Path, int]:
    """Where memory is limited here: version 1's hierarchy if there is one, for then version 2's has no say."""
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
    if swap.exists():  # a kernel without swap accounting has no such file, and nothing to set
        swap.write_text(value)


def _remove(folder: Path) -> None:
    """Its last process may be a moment in ending."""
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
