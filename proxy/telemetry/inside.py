"""What the metrics show and the core does not know: whoever puts the proxy together tells it when asked.

Asked once per scrape or push, on the loop: no I/O beyond a look into /proc.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.telemetry.process import ProcessFacts


class Feature(NamedTuple):
    """A feature flag. `stage` is alpha, beta or ga."""

    name: str
    stage: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Reloads:
    """What has become of reloads. `loaded_ms` is when the configuration in force was loaded."""

    succeeded: int = 0
    failed: int = 0
    last_ok: bool | None = None
    """None before the first."""
    loaded_ms: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """See the module. Counts are since the process began."""

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
    """Lines that the audit log does not have, by reason; empty where there is no audit log."""
    reloads: Reloads = field(default_factory=Reloads)
    features: Sequence[Feature] = ()


class Inside(Protocol):
    """See the module."""

    def facts(self) -> Facts:
        """All of them, as they are now."""

    def quota_rate(self, user: str) -> float | None:
        """The requests a second that this user is held to, if any quota knows (`Policy.in_force`)."""
