"""Collects the metrics of the core for the page and the push.

Rules:
- Counters of the core are read on request. Only figures that the core reports once are kept here.
- `collect` runs on the loop; its families should be rendered on another thread.
- The series of a policy end when a reload has removed it.
- Traced requests must have their trace id, so the tracer is called before the metrics.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

from proxy.core.observer import Observer
from proxy.telemetry.metrics import collect, names
from proxy.telemetry.metrics.collect import custom_metrics
from proxy.telemetry.metrics.families import Exemplar, Family, MetricPoint, Wait, place_of
from proxy.telemetry.metrics.pools import Pools
from proxy.telemetry.metrics.quota_entities import quota_entities
from proxy.telemetry.metrics.users import MAX_FOLDED, OTHER, UserBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from proxy.core.engine import Engine
    from proxy.core.errors import CloseReason
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.core.stats.usage import UsageRow
    from proxy.telemetry.facts import FactsSource
    from proxy.telemetry.metrics.push import MetricPush
    from wire.apis import Api

FOLD_EVERY_MS = 3
"""Milliseconds between two batches of rows."""


EXEMPLARY = frozenset(("throttle", "purgatory"))
"""The stages whose histograms have the latest traced request of each bucket."""


class MetricsObserver(Observer):
    """Keeps the figures that the core reports once. Call `attach` before reading."""

    def __init__(
        self,
        max_users: int = 100,
        push: MetricPush | None = None,
        max_quota_entities: int = 0,
    ) -> None:
        self._users = UserBook(max_users)
        self._max_quota_entities = max_quota_entities
        self._push = push
        self._exemplars = ExemplarStore()
        self._pools = Pools()
        self._folding = False
        self._opened = 0
        self._closed: Counter[CloseReason] = Counter()
        self._handshakes_failed = 0
        self._internal_errors = 0
        self._policy_errors: Counter[tuple[str, str]] = Counter()
        self._policy_observed: Counter[tuple[str, str, str]] = Counter()
        self._policy_refused: Counter[tuple[str, str, str]] = Counter()
        self._removed_versions: Counter[tuple[str, str]] = Counter()
        self._entries: tuple[str, ...] = ()
        self._engine: Engine
        self._facts_source: FactsSource

    def attach(self, engine: Engine, facts_source: FactsSource) -> None:
        """Set the engine and the source of the other figures."""
        self._engine = engine
        self._facts_source = facts_source

    def close(self, timeout_s: float = 2.0) -> None:
        """Push once more, if the collector takes it within `timeout_s`."""
        if self._push is not None:
            self._push.send(self.collect(), self._engine.now_ms)
            self._push.close(timeout_s)

    # -- reports of the core ---------------------------------------------------------------------

    def on_trace(self, trace: RequestTrace) -> None:
        """See Observer."""
        self._exemplars.note(trace)

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        self._users.put(ts_ms, rows)
        if not self._folding:  # else a timer is set
            self._fold(ts_ms)
        self._pools.sample(self._engine)
        self._forget_removed()
        if self._push is not None and self._push.is_due(self._engine.now_ms):
            self._push.send(self.collect(), self._engine.now_ms)

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        self._opened += 1

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer."""
        self._closed[reason] += 1

    def on_handshake_failed(self, host: str, port: int, detail: str) -> None:
        """See Observer."""
        self._handshakes_failed += 1

    def on_internal_error(self, error: BaseException) -> None:
        """See Observer."""
        self._internal_errors += 1

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """See Observer."""
        self._policy_errors[name, hook] += 1

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer."""
        self._policy_observed[decision.policy, decision.kind, decision.operation] += 1

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer."""
        kind = "close" if decision.closes else "reject"
        self._policy_refused[decision.policy, kind, decision.operation] += 1

    def on_removed_version(self, peer: Peer, api: Api) -> None:
        """See Observer."""
        self._removed_versions[api.name, str(api.version)] += 1

    # -- reading ---------------------------------------------------------------------------------

    def collect(self) -> Iterable[Family]:
        """Return all families of this moment, to be read once on any thread: the reader does the slow part."""
        meters = self._engine.meters
        parts = (*meters.gone(), *meters.each())
        return chain(collect.requests(parts, self._exemplars.copy()), list(self._families()))

    def _families(self) -> Iterator[Family]:
        """Yield the families that must be read on the loop."""
        engine, facts_source = self._engine, self._facts_source
        self._users.fold()
        yield from collect.turns(engine.meters)
        yield collect.single(names.EXEMPT, self._users.exempt)
        yield from collect.users(self._users.series(engine.now_ms), OTHER, facts_source.quota_rate)
        if self._max_quota_entities:
            policies = facts_source.quota_entities(engine.now_ms)
            yield from quota_entities(policies, self._max_quota_entities)
        yield from self._pools.families(engine)
        yield from collect.waiting(engine)
        yield from collect.connections(engine, self._opened, self._closed)
        yield collect.single(names.HANDSHAKES_FAILED, self._handshakes_failed)
        yield collect.single(names.INTERNAL_ERRORS, self._internal_errors)
        if self._policy_errors:
            counts = [MetricPoint(key, count) for key, count in self._policy_errors.items()]
            yield Family(names.POLICY_ERRORS, counts)
        yield from collect.hooks(engine.chain.hook_runner.times)
        yield from custom_metrics(engine.chain.entries)
        for metric, counted in (
            (names.REMOVED_VERSIONS, self._removed_versions),
            (names.POLICY_OBSERVED, self._policy_observed),
            (names.POLICY_REFUSED, self._policy_refused),
        ):
            if counted:
                yield Family(metric, [MetricPoint(key, count) for key, count in counted.items()])
        if self._push is not None:
            yield from collect.labelled(names.PUSHES, self._push.counts())
        yield from collect.process(facts_source.facts())

    def _forget_removed(self) -> None:
        """End the series of policies that a reload has removed."""
        names = tuple(entry.name for entry in self._engine.chain.entries)
        if names == self._entries:
            return
        self._entries = names
        counters: tuple[Counter[Any], ...]
        counters = self._policy_errors, self._policy_observed, self._policy_refused
        for counter in counters:
            for key in [key for key in counter if key[0] not in names]:
                del counter[key]

    def _fold(self, _: int) -> None:
        self._folding = self._users.fold(MAX_FOLDED)
        if self._folding:
            self._engine.timers.arm(self._engine.now_ms + FOLD_EVERY_MS, self._fold)


class ExemplarStore:
    """Keeps one exemplar per API, stage and bucket. Called on the request path, for requests that waited."""

    def __init__(self) -> None:
        self._exemplars: dict[Wait, dict[int, Exemplar]] = {}

    def note(self, trace: RequestTrace) -> None:
        """Keep an ended request as exemplar if it has a trace."""
        trace_id = trace.trace_id
        if not trace_id:
            return
        for stage in trace.stages:
            if stage.kind in EXEMPLARY:
                took_us = stage.ended_us - stage.began_us
                exemplars = self._exemplars.setdefault((trace.api.name, stage.kind), {})
                place = place_of(took_us, names.STAGE.edges)
                exemplars[place] = Exemplar(trace_id, took_us / 1e6, stage.ended_us / 1e6)

    def copy(self) -> dict[Wait, dict[int, Exemplar]]:
        """Return a copy of all exemplars, by API and stage."""
        return {wait: dict(exemplars) for wait, exemplars in self._exemplars.items()}
