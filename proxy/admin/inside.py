"""What the admin server needs of the proxy it stands in: whoever puts the proxy together gives it.

Everything here is called on the loop. What may take long is awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.admin.schemas import Check, Quotas, Reloaded
    from proxy.admin.state import Arrivals
    from proxy.core.engine import Engine
    from proxy.telemetry.decisions import Decisions
    from proxy.telemetry.facts import Facts
    from proxy.telemetry.history import History
    from proxy.telemetry.log import Level
    from proxy.telemetry.principals import Principals
    from proxy.telemetry.signals import Signals


class Held(NamedTuple):
    """The request quota that holds for somebody."""

    entity: str
    rate: float


class Binding(NamedTuple):
    """The limit that stops a client first, and how its bucket stands, which others may share."""

    entity: str
    quota: str
    limit: float
    """Per second."""
    rate: float | None = None
    """Per second, of all who share the bucket; None: the policy does not tell."""
    wait_ms: float = 0.0
    waiting: int = 0
    used: float | None = None
    """From 0 to 1."""


class RefusedError(Exception):
    """It cannot be done; the message says why, to whoever asked. `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AdminInside(Protocol):
    """See the module."""

    engine: Engine
    decisions: Decisions
    history: History
    principals: Principals
    arrivals: Arrivals
    signals: Signals
    reloaded_ms: int
    """When the last reload ended, however it did."""
    ports: Sequence[tuple[int | None, int]]
    """Every node (None: bootstrap) and our port for it."""

    @property
    def config_hash(self) -> str:
        """Of the configuration in force; another configuration has another."""

    def now_ms(self) -> int:
        """The proxy's one time."""

    def facts(self) -> Facts:
        """Of the process and of telemetry."""

    def readiness(self) -> Sequence[Check]:
        """What /ready looks at; the proxy takes no new clients if one of them is not ok."""

    async def metrics_page(self, *, openmetrics: bool) -> bytes:
        """What Prometheus reads."""

    def limit_of(self, user: str, client_id: str) -> Held | None:
        """What holds them."""

    def binding_limit(self, user: str, client_id: str, now_ms: int) -> Binding | None:
        """The limit that stops them first; None: there is none."""

    def quotas(self) -> Quotas:
        """Every limit. RefusedError: no policy keeps any."""

    def set_quotas(
        self,
        user: str | None,
        client_id: str | None,
        limits: dict[str, float | None],
        rev: str | None,
    ) -> Quotas:
        """Set live limits of this entity (None: take one back; none at all: take back all), if the book is at `rev`.

        Returns the book as it is now.

        RefusedError: it is not (412), or it may not be done (409), or cannot (400, 500).
        """

    def close_connection(self, session_id: int) -> bool:
        """End this client's connection; False: there is none of that id."""

    def drain(self) -> None:
        """As if SIGTERM had come."""

    async def reload(self) -> Reloaded:
        """Read the configuration again. RefusedError (409): a reload is under way."""

    def log_level(self) -> Level:
        """The least that is worth a line."""

    def set_log_level(self, level: Level) -> None:
        """From now on."""
