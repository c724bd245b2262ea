"""Figures for the metrics that the core does not have: process, reloads, dropped telemetry.

They are read once per scrape or push, on the event loop. The only I/O is reading /proc: memory, CPU time and
descriptors, which are zeros on systems without it.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_PROC = Path("/proc")
_PAGE_BYTES = resource.getpagesize()


class ProcessFacts(NamedTuple):
    """Bytes, seconds, counts. `started_s` is Unix time."""

    resident_bytes: int
    cpu_s: float
    open_fds: int
    max_fds: int
    started_s: float


def read_process() -> ProcessFacts:
    """Return the figures of this moment."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    try:
        resident_bytes = int((_PROC / "self/statm").read_text().split()[1]) * _PAGE_BYTES
        open_fds = _open_fds(_PROC / "self/fd")
    except OSError:
        resident_bytes = open_fds = 0
    return ProcessFacts(
        resident_bytes,
        usage.ru_utime + usage.ru_stime,
        open_fds,
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        STARTED_S,
    )


def _open_fds(folder: Path, *, is_size: bool | None = None) -> int:
    """Return the number of open descriptors.

    Since Linux 6.2 it is the size of the folder. Listing the folder costs 1 to 2 microseconds for each descriptor, too
    much to do every second with thousands of clients.
    """
    if _IS_SIZE if is_size is None else is_size:
        return folder.stat().st_size
    return len(os.listdir(folder)) - 1  # noqa: PTH208 - no path objects; one is the listing's own


def _is_count_the_size(folder: Path = _PROC / "self/fd") -> bool:
    try:
        return 0 < folder.stat().st_size == _open_fds(folder, is_size=False)
    except OSError:
        return False


def _started_s(proc: Path = _PROC) -> float:
    """Return when the process began (Unix time in seconds); the present if that is not known."""
    try:
        # The 22nd field; the second is the program's name in brackets, and may itself contain brackets.
        ticks = int((proc / "self/stat").read_text().rpartition(")")[2].split()[19])
        since_boot_s = float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - since_boot_s + ticks / os.sysconf("SC_CLK_TCK")


STARTED_S = _started_s()
_IS_SIZE = _is_count_the_size()


class Feature(NamedTuple):
    """A feature flag. `stage` is alpha, beta or ga."""

    name: str
    stage: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Reloads:
    """Outcomes of reloads. `loaded_ms` is when the configuration in force was loaded."""

    succeeded: int = 0
    failed: int = 0
    last_ok: bool | None = None
    """None before the first reload."""
    loaded_ms: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The figures at one moment. Counts are since the process started."""

    version: str
    process: ProcessFacts
    clock_drift_ms: int = 0
    draining: bool = False
    spans_dropped: int = 0
    usage_rows_dropped: int = 0
    log_suppressed: Mapping[str, int] = field(default_factory=dict)
    """By event."""
    log_lines_lost: int = 0
    audit_lost: Mapping[str, int] = field(default_factory=dict)
    """Lines missing from the audit log, by reason; empty without an audit log."""
    reloads: Reloads = field(default_factory=Reloads)
    features: Sequence[Feature] = ()
    certificates_ms: Mapping[str, int] = field(default_factory=dict)
    """When Sluice's own certificates end, in ms since the epoch, by side (`proxy.tls.setup`)."""


class EntityFigures(Protocol):
    """One bucket (`policies.quota.sensors.BucketMetrics`). Rates are per second; None: not throttled lately."""

    @property
    def user(self) -> str:
        """Return its user, or "" for none."""

    @property
    def client_id(self) -> str:
        """Return its client id, or "" for none."""

    @property
    def key(self) -> str:
        """Return the key of its quota."""

    @property
    def limit(self) -> float:
        """Return its quota."""

    @property
    def rate(self) -> float:
        """Return what it uses."""

    @property
    def throttle_avg_ms(self) -> float | None:
        """Return the mean of its throttles."""

    @property
    def throttle_max_ms(self) -> int | None:
        """Return the longest of its throttles."""


class QuotaEntities(NamedTuple):
    """The buckets of one policy's entry."""

    policy: str
    figures: Iterable[EntityFigures]


class FactsSource(Protocol):
    """The part of `proxy.admin.service` that the metrics read."""

    def facts(self) -> Facts:
        """Return the figures of this moment."""

    def quota_rate(self, user: str) -> float | None:
        """Return the user's limit in requests per second; None without one (`Policy.effective_quota`)."""

    def quota_entities(self, now_ms: int) -> Iterable[QuotaEntities]:
        """Yield the quota entities of each policy that keeps any."""
