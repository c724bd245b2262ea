"""Figures for the metrics that the core does not have: process, reloads, dropped telemetry.

They are read once per scrape or push, on the event loop. The only I/O is reading /proc.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.telemetry.process import ProcessFacts


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
    """When Sluice's own certificates end, in ms since the epoch, by side (`proxy.tls`)."""


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
