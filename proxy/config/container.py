"""The memory limit of the process: of its container (cgroup), or of Kubernetes.

- cgroup v2 (`memory.max`) and v1 (`memory.limit_in_bytes`): the smallest limit from the process's own
  group up to the root, because each of them holds.
- SLUICE_MEMORY_LIMIT_BYTES, which Kubernetes can set from `limits.memory` (resourceFieldRef), is one more
  limit. Kubernetes sets it to the memory of the node if the pod has no limit; such a value is ignored.
- A limit larger than the memory of the machine is no limit.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLE = "SLUICE_MEMORY_LIMIT_BYTES"
NODE_PART = 0.75
"""A variable with more than this part of the machine's memory is ignored."""


class MemoryLimit(NamedTuple):
    """A limit in bytes, and the file or variable that it comes from."""

    limit_bytes: int
    origin: str


def memory_limit(
    environ: Mapping[str, str] = os.environ,
    proc: Path = Path("/proc"),
    groups: Path = Path("/sys/fs/cgroup"),
) -> MemoryLimit | None:
    """Return the smallest limit, or None without one. Files that cannot be read are ignored."""
    host_bytes = _host_bytes(proc)
    found = [each for each in _group_limits(proc, groups) if each.limit_bytes < host_bytes]
    text = environ.get(VARIABLE, "").strip()
    if text.isascii() and text.isdigit() and 0 < int(text) <= NODE_PART * host_bytes:
        found.append(MemoryLimit(int(text), VARIABLE))
    return min(found, default=None)


def _host_bytes(proc: Path) -> float:
    """Return the memory of the machine, or infinity if it is not known."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", _text(proc / "meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else float("inf")


def _group_limits(proc: Path, groups: Path) -> Iterator[MemoryLimit]:
    for line in _text(proc / "self" / "cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) < 3:
            continue
        _, controllers, path = parts
        if not controllers:
            # Beside v1 hierarchies the unified one may lie a folder below.
            for root in (groups, groups / "unified"):
                yield from _upwards(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(groups / "memory", path, "memory.limit_in_bytes")


def _upwards(root: Path, path: str, name: str) -> Iterator[MemoryLimit]:
    """Yield the limits from the group up to the root. In a container the path may not exist; its root is the group."""
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    for depth in range(len(parts), -1, -1):
        file = root.joinpath(*parts[:depth], name)
        text = _text(file).strip()
        if text.isascii() and text.isdigit() and int(text) > 0:
            yield MemoryLimit(int(text), str(file))


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii", "replace")
    except OSError:
        return ""
