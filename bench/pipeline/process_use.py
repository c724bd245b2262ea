"""CPU time and memory of processes that come and go, by samples: a Spark application and the workers of its cluster.

Rules:
- The children of this process are told apart by their command lines: masters and workers of a cluster, and the command
  that is measured. A worker's memory is that of its tree: itself, its executor, and the executor's Python.
- Memory is the greatest sum of resident sizes of one sample. Pages that processes share count for each of them, so a
  worker that forks Python needs a little less than is said.
- A process that ends between two samples loses its CPU time since the first of them.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bench.harness.usage import PROC, children, own_cpu_ns, resident_bytes, tree

EVERY_S: Final = 0.5
COMMAND: Final = "command"
MASTER: Final = "master"
WORKER: Final = "worker"
_WORDS: Final = {b"deploy.master.Master": MASTER, b"deploy.worker.Worker": WORKER}


@dataclass(slots=True)
class Use:
    """What has been seen since it was made."""

    cpu_ns: dict[int, int] = field(default_factory=dict)
    """Of each process, when it was last seen."""
    before_ns: dict[int, int] = field(default_factory=dict)
    """The same, at the first sample."""
    peaks: dict[str, int] = field(default_factory=dict)
    """The memory of the largest child, by kind."""

    @property
    def cpu_s(self) -> float:
        """Return the CPU time of all processes since the first sample, in seconds."""
        return (sum(self.cpu_ns.values()) - sum(self.before_ns.values())) / 1e9

    def sample(self) -> None:
        """Look at all descendants of this process."""
        for child in children(os.getpid()):
            with suppress(OSError):  # it has ended
                kind = _kind((PROC / str(child) / "cmdline").read_bytes())
                self.peaks[kind] = max(self.peaks.get(kind, 0), resident_bytes(child))
            for pid in tree(child):
                with suppress(OSError):
                    self.cpu_ns[pid] = own_cpu_ns(pid)
        if not self.before_ns:
            self.before_ns = dict(self.cpu_ns)


@contextmanager
def watched() -> Iterator[Use]:
    """Yield what is seen of this process's descendants while the block runs."""
    use = Use()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(EVERY_S):
            use.sample()

    use.sample()
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield use
    finally:
        ended.set()
        thread.join()
        use.sample()


def _kind(command_line: bytes) -> str:
    return next((kind for word, kind in _WORDS.items() if word in command_line), COMMAND)
