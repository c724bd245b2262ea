"""The figures of a report: small tuples of plain numbers, apart from Spark and from drawing.

Rules:
- Times are milliseconds of Unix time, rates are per second, shares are 0 to 1, durations are milliseconds.
- The lists are as small as the page: the jobs reduce users, clients and APIs to those with most before they come here.
- An empty tuple, or None, means that nothing was recorded or asked for; its section is then left out or says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHER: Final = "(other)"
"""The name of all that are not among those with most."""
ROWS, CAPTURE = "one-second rows", "every request of the capture"
"""The sources of predictions, in words."""


class ClientName(NamedTuple):
    """A user and a client id, as the client chose them; either may be empty."""

    user: str
    client_id: str


class Scope(NamedTuple):
    """The origin of the figures."""

    source: str
    """The URI of the tables."""
    written_at: str
    start_ms: int
    end_ms: int
    """The end of the last second."""
    instances: int
    clients: int
    """Distinct pairs of user and client id."""
    requests: int
    charged: int
    """Of all clients, also those that the lists leave out; so are the next two."""
    throttled: int
    throttle_ms_max: int


class TrafficBin(NamedTuple):
    """The requests of one user (or client id, if there is one user) in one stretch of time."""

    at_ms: int
    name: str
    requests_per_s: float


class ThrottledBin(NamedTuple):
    """The throttled share of one client's requests in one stretch of time."""

    at_ms: int
    client: ClientName
    share: float


class ClientUse(NamedTuple):
    """The requests of one client over the whole time, and the request rate that was in force for it."""

    client: ClientName
    requests: int
    charged: int
    throttled: int
    throttle_ms: int
    throttle_ms_max: int
    quota_entity: str | None = None
    quota_rate: float | None = None
    enforcement: str | None = None
    limit: str | None = None
    """The limit that delayed most of its requests, by its traces; without traces None."""

    @property
    def throttled_share(self) -> float:
        """Return the share of the charged requests that were throttled."""
        return min(1.0, self.throttled / self.charged) if self.charged else 0.0


class EntityNeed(NamedTuple):
    """The request rates of an entity on one Sluice, per second."""

    name: str
    entity: tuple[str | None, str | None]
    """User and client id; None is not told apart."""
    mean: float
    """Of the seconds in which it sent something."""
    need: float
    """The smallest limit that throttles few of its requests, as `pipeline.recommend.needs` has it."""
    quota: float | None
    """The limit in force."""
    recommended: float | None


class SweepCell(NamedTuple):
    """The prediction for one client if all its quotas are multiplied by `factor`."""

    client: ClientName
    factor: float
    demand: int
    """Requests that it would send without a quota."""
    accepted: int
    """Requests that pass in the same time."""
    throttled: int
    quota_rate: float | None = None
    """The request rate of its bucket at this factor."""

    @property
    def throttled_share(self) -> float:
        """Return the share of the accepted requests that are throttled."""
        return min(1.0, self.throttled / self.accepted) if self.accepted else 0.0


class Wait(NamedTuple):
    """How long the requests of one client or API waited in one stage, those that waited at all (`throttle`: delays)."""

    stage: str
    by: str
    """`client` or `api`."""
    name: str
    requests: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class StageTime(NamedTuple):
    """The time that all requests of one API spent in one stage; in `throttle` with the pauses after them."""

    api: str
    stage: str
    total_ms: float


class PoolUse(NamedTuple):
    """The largest use of one memory pool in one stretch of time, and how long it was empty."""

    at_ms: int
    pool: str
    """`requests` or `replies`."""
    used_share: float
    depleted_ms: int


class TracedRequest(NamedTuple):
    """One slow request, by its trace."""

    trace_id: str
    client: ClientName
    api: str
    total_ms: float
    throttle_ms: float
    purgatory_ms: float
    memory_ms: float
    upstream_ms: float
    pause_ms: float
    """What was left of the pause when it had its reply; not in the total."""


class DataQuality(NamedTuple):
    """The rows and spans that are missing or were set aside."""

    rows: Mapping[str, int]
    """Rows of each family."""
    lost: int = 0
    """Rows that are missing in `seq`."""
    quarantined: Mapping[str, int] = MappingProxyType({})
    """Rows that were set aside, by reason."""
    duplicates: int | None = None
    """Rows that were delivered twice, of which one was kept; None if the tables were made by an earlier run."""
    spans_dropped: int = 0
    rows_dropped: int = 0
    """Rows that instances could not write, by their own count."""

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is missing or was set aside."""
        return not any((self.lost, self.quarantined, self.spans_dropped, self.rows_dropped))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportFacts:
    """All figures of a report."""

    scope: Scope
    quality: DataQuality
    clients: tuple[ClientUse, ...]
    """Those with most requests and those with most throttled ones."""
    traffic: tuple[TrafficBin, ...]
    """Dense: each name has a bin at each time."""
    throttling: tuple[ThrottledBin, ...] = ()
    needs: tuple[EntityNeed, ...] = ()
    sweep: tuple[SweepCell, ...] = ()
    sweep_of: str = ""
    """The quotas of the sweep's factor 1, in words."""
    sweep_from: str = ""
    """ROWS or CAPTURE."""
    waits: tuple[Wait, ...] = ()
    stages: tuple[StageTime, ...] = ()
    pools: tuple[PoolUse, ...] = ()
    slowest: tuple[TracedRequest, ...] = ()
