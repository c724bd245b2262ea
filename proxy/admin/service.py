"""The one service below the admin server and the metrics: the state of the proxy, and what an operator may do.

Rules:
- Called on the event loop, between two steps. Slow work is awaited.
- An operator's change is applied at once: the driver is nudged.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio

from proxy.admin.errors import AdminError
from proxy.admin.live_policies import LivePolicies
from proxy.admin.live_quotas import LiveQuotas
from proxy.admin.schemas import HealthCheck, Reloaded, RunningConfig
from proxy.config.changes import shown
from proxy.core.errors import CloseReason
from proxy.reload import ReloadRunningError
from proxy.shell.driver import nudge
from proxy.telemetry import log
from proxy.telemetry.facts import Facts, QuotaEntities, Reloads, read_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from proxy.core.engine import Engine
    from proxy.reload import Reloader
    from proxy.shell.clock import Clock
    from proxy.shell.event_loop import EventLoop
    from proxy.telemetry.audit_log import AuditLog
    from proxy.telemetry.log import Level, LogObserver
    from proxy.telemetry.monitoring import Monitoring

VERSION = version("kafka-sluice")


class DropCounter(Protocol):
    """A queue that drops items if it is full."""

    @property
    def dropped(self) -> int:
        """Return the number of items dropped since the start."""


MAX_SHOWN_NODES = 20


class AdminService:
    """The state and the controls. `ports` has every node (None: bootstrap) with Sluice's port for it.

    `drain` starts a drain; `is_full` tells whether the connection limit is reached; `certificates_ms` when Sluice's own
    certificates end. Telemetry that is switched off is None.
    """

    def __init__(
        self,
        engine: Engine,
        event_loop: EventLoop,
        clock: Clock,
        reloader: Reloader,
        ports: Sequence[tuple[int | None, int]],
        *,
        log_observer: LogObserver,
        monitoring: Monitoring,
        traces: DropCounter | None = None,
        usage_log: DropCounter | None = None,
        audit: AuditLog | None = None,
        drain: Callable[[], None],
        is_draining: Callable[[], bool],
        is_full: Callable[[], bool],
        certificates_ms: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.engine = engine
        self.ports = ports
        self.decisions = monitoring.decisions
        self.history = monitoring.history
        self.principals = monitoring.principals
        self.connection_times = monitoring.connection_times
        self.signals = monitoring.signals
        self.live_quotas = LiveQuotas(engine, event_loop, reloader)
        self.live_policies = LivePolicies(engine, event_loop)
        self._event_loop = event_loop
        self._clock = clock
        self._reloader = reloader
        self._log_observer = log_observer
        self._metrics = monitoring.metrics
        self._traces = traces
        self._usage_log = usage_log
        self._audit = audit
        self._drain = drain
        self._is_draining = is_draining
        self._is_full = is_full
        self._certificates_ms = certificates_ms

    # -- state -----------------------------------------------------------------------------------

    @property
    def config_hash(self) -> str:
        """Return a hash of the configuration in force."""
        return self._reloader.config_hash

    def running_config(self) -> RunningConfig:
        """Return the configuration in force, without secrets."""
        settings, files = shown(self._reloader.config)
        return RunningConfig(msgspec.Raw(msgspec.json.encode(settings)), files, self._reloader.live)

    @property
    def reloaded_ms(self) -> int:
        """Return when the last reload ended, successful or not; 0 before the first."""
        return self._reloader.tally.last_ms

    def now_ms(self) -> int:
        """Return the proxy's time, in ms since the epoch."""
        return self._clock()

    def facts(self) -> Facts:
        """See FactsSource."""
        tally = self._reloader.tally
        return Facts(
            version=VERSION,
            process=read_process(),
            clock_drift_ms=self._clock.drift_ms(),
            draining=self._is_draining(),
            spans_dropped=_dropped(self._traces),
            usage_rows_dropped=_dropped(self._usage_log),
            log_suppressed=self._log_observer.suppressed,
            log_lines_lost=self._log_observer.lines_lost,
            audit_lost={} if self._audit is None else self._audit.lost(),
            reloads=Reloads(tally.succeeded, tally.failed, tally.last_ok, tally.loaded_ms),
            certificates_ms=self._certificates_ms(),
        )

    def quota_rate(self, user: str) -> float | None:
        """See FactsSource."""
        held = self.live_quotas.effective_quota(user, "")
        return None if held is None else held.rate

    def quota_entities(self, now_ms: int) -> Iterator[QuotaEntities]:
        """See FactsSource."""
        return self.live_quotas.entities(now_ms)

    def readiness(self) -> Sequence[HealthCheck]:
        """Return the checks of /ready; the proxy takes no new clients if one of them is not ok."""
        draining, full = self._is_draining(), self._is_full()
        connected = len(self.engine.sessions)
        return (
            HealthCheck("serving", ok=not draining, detail="draining" if draining else "serving"),
            HealthCheck(
                "connections",
                ok=not full,
                detail=f"{connected} clients" + (": the limit is reached" if full else ""),
            ),
        )

    def routes(self) -> HealthCheck:
        """Return the check of /ready whether every broker that was named has a port here; if not, it is degraded."""
        outside = sorted(self.engine.topology.unmapped_nodes)
        if not outside:
            return HealthCheck("nodes", ok=True, detail="every broker has a port here")
        shown = ", ".join(map(str, outside[:MAX_SHOWN_NODES]))
        more = ", ..." if len(outside) > MAX_SHOWN_NODES else ""
        why = "outside listen.nodes: partitions that they lead do not work"
        return HealthCheck("nodes", ok=False, detail=f"brokers {shown}{more} are {why}")

    async def metrics_page(self, *, openmetrics: bool) -> bytes:
        """Return the page that Prometheus scrapes: collected here, rendered in a thread.

        A scrape that is cancelled waits for its thread. Otherwise one that comes back would find many at work, and the
        event loop shares the interpreter with each.
        """
        from proxy.telemetry.metrics.exposition import render  # noqa: PLC0415 - see `proxy.cli.main`

        families = self._metrics.collect()
        return await trio.to_thread.run_sync(lambda: render(families, openmetrics=openmetrics))

    def log_level(self) -> Level:
        """Return the lowest level that is logged."""
        return log.level()

    # -- control ---------------------------------------------------------------------------------

    def close_connection(self, session_id: int) -> bool:
        """Close this client's connection; return False if there is none with this id."""
        for session in self.engine.sessions:
            if session.peer.session_id == session_id:
                session.end(CloseReason.OPERATOR, "", self._clock())
                self.engine.ask_for_turn(session)
                nudge(self._event_loop)
                return True
        return False

    def drain(self) -> None:
        """Start a drain, as SIGTERM does."""
        self._drain()

    async def reload(self) -> Reloaded:
        """Read the configuration again and apply it. Raises AdminError (409) while another reload is running."""
        try:
            result = await self._reloader.reload()
        except ReloadRunningError as error:
            raise AdminError(409, str(error)) from error
        nudge(self._event_loop)
        return Reloaded(result.ok, list(result.changed), list(result.problems))

    def set_log_level(self, level: Level) -> None:
        """Set the lowest level that is logged."""
        log.set_level(level)


def _dropped(queue: DropCounter | None) -> int:
    return 0 if queue is None else queue.dropped
