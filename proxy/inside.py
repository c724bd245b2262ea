"""The proxy as telemetry and the admin server see it: everything they are told, and everything they may do.

Rules:
- Called on the loop, between two steps of the hub. What an operator changes is settled at once (`driver.nudge`).
- What quotas there are and what may be changed of them is the policy's own word (`policies.quota.alter`), as for who
  asks over the Kafka protocol; here nobody is asked for a name, for whoever comes here was let in.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import trio

from proxy.admin.inside import Binding, Held, RefusedError
from proxy.admin.schemas import Check, Quota, Quotas, Reloaded
from proxy.core.errors import CloseReason
from proxy.reload import BusyError
from proxy.shell.driver import nudge
from proxy.telemetry import log
from proxy.telemetry.facts import Facts, Reloads
from proxy.telemetry.process import read_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.chain import Chain
    from policies.quota import entity
    from policies.quota.alter import Change
    from policies.quota.standing import Standing
    from proxy.admin.state import Arrivals
    from proxy.core.engine import Engine
    from proxy.reload import Reloader
    from proxy.shell.clock import Clock
    from proxy.shell.hub import Hub
    from proxy.telemetry.audit import AuditLog
    from proxy.telemetry.decisions import Decisions
    from proxy.telemetry.history import History
    from proxy.telemetry.log import Level, LogObserver
    from proxy.telemetry.metrics.observer import Metrics
    from proxy.telemetry.principals import Principals
    from proxy.telemetry.signals import Signals

VERSION = version("kafka-sluice")


class Dropped(Protocol):
    """Whoever may have to drop something, and counts it."""

    @property
    def dropped(self) -> int:
        """How many."""


@runtime_checkable
class QuotaBook(Protocol):
    """A policy that keeps quotas which may be changed live."""

    config: object
    quotas: entity.Quotas

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Save and apply. Raises OSError; then nothing has changed."""

    def standings(self, user: str, client_id: str, now_ms: int) -> Sequence[Standing]:
        """How each bucket stands that these draw on."""


class Nothing:
    """Drops nothing: takes the place of what is switched off."""

    dropped = 0


class ProxyInside:
    """FactsSource and AdminInside. `drain` begins the end; `is_full`: no more clients are taken."""

    def __init__(
        self,
        engine: Engine,
        hub: Hub,
        clock: Clock,
        reloader: Reloader,
        ports: Sequence[tuple[int | None, int]],
        *,
        log_observer: LogObserver,
        metrics: Metrics,
        decisions: Decisions,
        history: History,
        principals: Principals,
        arrivals: Arrivals,
        signals: Signals,
        traces: Dropped | None = None,
        usage_log: Dropped | None = None,
        audit: AuditLog | None = None,
        drain: Callable[[], None],
        is_draining: Callable[[], bool],
        is_full: Callable[[], bool],
    ) -> None:
        self.engine = engine
        self.ports = ports
        self.decisions = decisions
        self.history = history
        self.principals = principals
        self.arrivals = arrivals
        self.signals = signals
        self._hub = hub
        self._clock = clock
        self._reloader = reloader
        self._log_observer = log_observer
        self._metrics = metrics
        self._traces: Dropped = traces or Nothing()
        self._usage_log: Dropped = usage_log or Nothing()
        self._audit = audit
        self._drain = drain
        self._is_draining = is_draining
        self._is_full = is_full
        self._books_of: Chain | None = None
        self._books: list[QuotaBook] = []

    # -- what is told ----------------------------------------------------------------------------

    @property
    def config_hash(self) -> str:
        """See AdminInside."""
        return self._reloader.config_hash

    @property
    def reloaded_ms(self) -> int:
        """See AdminInside."""
        return self._reloader.tally.last_ms

    def now_ms(self) -> int:
        """See AdminInside."""
        return self._clock()

    def facts(self) -> Facts:
        """See FactsSource."""
        tally = self._reloader.tally
        return Facts(
            version=VERSION,
            process=read_process(),
            clock_drift_ms=self._clock.drift_ms(),
            draining=self._is_draining(),
            spans_dropped=self._traces.dropped,
            usage_rows_dropped=self._usage_log.dropped,
            log_suppressed=self._log_observer.suppressed,
            log_lines_lost=self._log_observer.lines_lost,
            audit_lost={} if self._audit is None else self._audit.lost(),
            reloads=Reloads(tally.succeeded, tally.failed, tally.last_ok, tally.loaded_ms),
        )

    def quota_rate(self, user: str) -> float | None:
        """See FactsSource."""
        held = self.limit_of(user, "")
        return held.rate if held else None

    def limit_of(self, user: str, client_id: str) -> Held | None:
        """The first policy's word that has one."""
        found = self.engine.chain.in_force(user, client_id)
        return None if found is None else Held(found.entity, found.rate)

    def binding_limit(self, user: str, client_id: str, now_ms: int) -> Binding | None:
        """The fullest bucket of every policy that enforces quotas; else the rate that another policy tells of."""
        if (
            self._books_of is not self.engine.chain
        ):  # to ask for a protocol takes longer than all the rest
            self._books_of = self.engine.chain
            self._books = [
                each.policy
                for each in self._books_of.entries
                if each.mode == "enforce" and isinstance(each.policy, QuotaBook)
            ]
        found = [each for book in self._books for each in book.standings(user, client_id, now_ms)]
        if found:
            fullest = max(found, key=_fullness)
            return Binding(*fullest, fullest.used)
        held = self.limit_of(user, client_id)
        return None if held is None else Binding(held.entity, "request_rate", held.rate)

    def readiness(self) -> Sequence[Check]:
        """See AdminInside."""
        draining, full = self._is_draining(), self._is_full()
        connected = len(self.engine.sessions)
        return (
            Check("serving", ok=not draining, detail="it drains" if draining else "it serves"),
            Check(
                "connections",
                ok=not full,
                detail=f"{connected} clients" + (", and no more may come" if full else ""),
            ),
        )

    async def metrics_page(self, *, openmetrics: bool) -> bytes:
        """Collected here, rendered in a thread."""
        from proxy.telemetry.metrics.page import render  # noqa: PLC0415 - see `proxy.cli`

        families = self._metrics.collect()
        return await trio.to_thread.run_sync(lambda: render(families, openmetrics=openmetrics))

    def log_level(self) -> Level:
        """See AdminInside."""
        return log.level()

    # -- what is done ----------------------------------------------------------------------------

    def quotas(self) -> Quotas:
        """See AdminInside."""
        return self._listed(self._book())

    def set_quotas(
        self,
        user: str | None,
        client_id: str | None,
        limits: dict[str, float | None],
        rev: str | None,
    ) -> Quotas:
        """See AdminInside."""
        book = self._book()
        if rev is not None and rev != self._rev(book):
            raise RefusedError(412, "the quotas are others by now")
        replicas = getattr(book.config, "replicas", 1)
        if replicas > 1:
            words = f"this Sluice is one of {replicas} replicas: change the config file of all"
            raise RefusedError(409, words)
        changes = _judged(book, user, client_id, limits)
        try:
            if changes:
                book.change(changes, self._clock())
        except OSError as error:
            words = f"it could not be saved, so it was not made: {error.strerror}"
            raise RefusedError(500, words) from error
        nudge(self._hub)
        return self._listed(book)

    def close_connection(self, session_id: int) -> bool:
        """See AdminInside."""
        for session in self.engine.sessions:
            if session.peer.session_id == session_id:
                session.end(CloseReason.OPERATOR, "", self._clock())
                self.engine.attend(session)
                nudge(self._hub)
                return True
        return False

    def drain(self) -> None:
        """See AdminInside."""
        self._drain()

    async def reload(self) -> Reloaded:
        """See AdminInside."""
        try:
            result = await self._reloader.reload()
        except BusyError as error:
            raise RefusedError(409, str(error)) from error
        nudge(self._hub)
        return Reloaded(result.ok, list(result.changed), list(result.problems))

    def set_log_level(self, level: Level) -> None:
        """See AdminInside."""
        log.set_level(level)

    def _book(self) -> QuotaBook:
        for entry in self.engine.chain.entries:
            if isinstance(entry.policy, QuotaBook):
                return entry.policy
        raise RefusedError(404, "no policy here keeps quotas")

    def _rev(self, book: QuotaBook) -> str:
        return f"{self._reloader.tally.policies_ms:x}-{book.quotas.rev}"

    def _listed(self, book: QuotaBook) -> Quotas:
        return Quotas(
            self._rev(book),
            [
                Quota(each.entity.user, each.entity.client_id, each.key, each.value, each.origin)
                for each in book.quotas
            ],
        )


def _fullness(standing: Standing) -> tuple[float, float]:
    return standing.wait_ms, standing.used


def _judged(
    book: QuotaBook, user: str | None, client_id: str | None, limits: dict[str, float | None]
) -> Sequence[Change]:
    from policies.quota.alter import judge  # noqa: PLC0415 - only where a policy has loaded it
    from policies.quota.entity import ANY, QuotaEntity  # noqa: PLC0415 - as above
    from wire.client_quotas import CLIENT_ID, USER, Alteration  # noqa: PLC0415 - as above

    named = ((USER, user), (CLIENT_ID, client_id))
    whose = tuple((kind, None if name == ANY else name) for kind, name in named if name is not None)
    if not limits:
        limits = dict.fromkeys(book.quotas.overrides.get(QuotaEntity(user, client_id), ()))
    (judged,) = judge([Alteration(whose, tuple(limits.items()))], book.quotas)
    if judged.message is not None:
        raise RefusedError(400, judged.message)
    return judged.changes
