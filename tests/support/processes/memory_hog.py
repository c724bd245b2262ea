"""A process that takes memory in the group of a container until the kernel kills the container's process.

The kernel prefers a container as its victim, because the kubelet gives it a higher `oom_score_adj`. Run as
`python -m tests.support.processes.memory_hog GROUP`; it ends when the group's count of kills has grown.
"""

import os
import re
import sys
from pathlib import Path

_CHUNK_BYTES = 1 << 20
_COUNTERS = ("memory.oom_control", "memory.events")  # of version 1 and 2


def kills(group: Path) -> int:
    """Return how many processes of the group the kernel has killed for lack of memory."""
    texts = [(group / name).read_text() for name in _COUNTERS if (group / name).exists()]
    return sum(
        int(found)
        for text in texts
        for found in re.findall(r"^oom_kill (\d+)$", text, re.MULTILINE)
    )


def main(group: Path) -> None:
    """Take memory, a chunk at a time."""
    before = kills(group)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    taken = []
    while kills(group) == before and group.exists():
        taken.append(b"x" * _CHUNK_BYTES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
