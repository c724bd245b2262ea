"""The figures of the pod tests, and their section of bench/RESULTS.md (`make bench-pod`)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.harness import FOLDER
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table, write_section

VARIABLE: Final = "SLUICE_WRITE_POD_FIGURES"
"""Set by `make bench-pod`."""
_METHOD: Final = """\
## In a pod

Made by `make bench-pod`: `tests/integration/pods` runs the chart's own manifests and the real image with runc
(read-only, no capabilities, uid 65532, memory limit) before a real Kafka. The test's kubelet follows KEP-753; it
notices an ended container within a second, as the real one. *Lost* is acknowledged and not on the broker."""

_HEADS: Final = ("event", "measured", "figure")
_SIZE_HEADS: Final = (
    *("limits.memory", "pool of requests", "pool of replies", "most that Sluice uses"),
    "resident, one producer of 300 records/s",
)
_MIB: Final = 1 << 20


@dataclass(slots=True)
class PodFigures:
    """Rows of (what was done, what was measured, figure) in the order of the tests, and those of the sizes."""

    rows: list[list[str]] = field(default_factory=list)
    sizes: list[list[str]] = field(default_factory=list)

    def add(self, done: str, measured: str, figure: str) -> None:
        """Add a row."""
        self.rows.append([done, measured, figure])

    def start(self, seconds: float, connected: Mapping[str, Any]) -> None:
        """Add the start of a pod."""
        done = "start"
        self.add(done, "container started to `/startup` succeeds (probed each second)", _s(seconds))
        figure = f"{connected['refused']} of {connected['attempts']}"
        self.add(done, "first connects of the application that were refused", figure)

    def flush(self, records: int, drain_s: float) -> None:
        """Add the end of a pod."""
        done = "end of the pod, records waiting for the final flush"
        self.add(done, "records lost", f"0 of {records:,}")
        self.add(done, "SIGTERM of the sidecar to its end", _s(drain_s))

    def back(self, why: str, client: str, seconds: float) -> None:
        """Add a restart of the sidecar."""
        self.add(f"sidecar {why}", f"until the first ack, {client.title()} producer", _s(seconds))

    def size(self, limit: str, budget: Mapping[str, int], resident_bytes: int) -> None:
        """Add the sizes by one memory limit."""
        keys = ("requests_bytes", "replies_bytes", "max_bytes")
        found = [*(budget[key] for key in keys), resident_bytes]
        self.sizes.append([limit, *(f"{each / _MIB:.0f} MiB" for each in found)])

    def write(self) -> None:
        """Write the section, if the variable asks for it."""
        if os.environ.get(VARIABLE):
            load = f"{os.getloadavg()[0]:.1f} processes"
            facts = facts_line({"date": today(), "load, 1 minute": load, **describe()})
            parts = [_METHOD, "### Start, end and restart", table(_HEADS, self.rows)]
            parts += ["### Sizes", table(_SIZE_HEADS, self.sizes), facts]
            write_section(FOLDER, "pod", "\n\n".join(parts))


def _s(seconds: float) -> str:
    return f"{seconds:.1f} s"
