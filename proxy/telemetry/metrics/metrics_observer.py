"""What listens to the core and answers with a page.

Rules:
- What the core counts itself is read when somebody asks; only what it tells once and forgets is kept here.
- `collect` belongs to the loop; what it returns is the caller's, and should be rendered on another thread.
- A trail needs its trace id when it comes here, so the tracer listens before the metrics do.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from proxy.core.observer import Observer
from proxy.telemetry.metrics import collect, names
from proxy.telemetry.metrics.exemplars import Kept
from proxy.telemetry.metrics.exposition import render
from proxy.telemetry.metrics.families import Family, MetricPoint
from proxy.telemetry.metrics.pools import Pools
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

FOLD_EVERY_MS = 3
"""Between two turns, if there are rows for more than one."""


class MetricsObserver(Observer):
    """See the module. Nothing can be read before `attach`."""

    def __init__(self, max_users: int = 100, push: MetricPush | None = None) -> None:
        self._users = UserBook(max_users)
        self._push = push
        self._exemplars = Kept()
        self._pools = Pools()
        self._folding = False
        self._opened = 0
        self._closed: Counter[CloseReason] = Counter()
        self._internal_errors = 0
        self._policy_errors: Counter[tuple[str, str]] = Counter()
        self._policy_observed: Counter[tuple[str, str, str]] = Counter()
        self._policy_refused: Counter[tuple[str, str, str]] = Counter()
        self._engine: Engine
        self._facts_source: FactsSource

    def attach(self, engine: Engine, facts_source: FactsSource) -> None:
        """The engine is made, and so is everything else."""
        self._engine = engine
        self._facts_source = facts_source

    def close(self, timeout_s: float = 2.0) -> None:
        """MetricPush once more, if the collector takes it in time."""
        if self._push is not None:
            self._push.send(self.collect(), self._engine.now_ms)
            self._push.close(timeout_s)

    # -- what the core tells ---------------------------------------------------------------------

    def on_trail(self, trail: RequestTrace) -> None:
        """See Observer."""
        self._exemplars.note(trail)

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        self._users.put(ts_ms, rows)
        if not self._folding:  # else its turn comes by itself
            self._fold(ts_ms)
        self._pools.look(self._engine)
        if self._push is not None and self._push.is_due(self._engine.now_ms):
            self._push.send(self.collect(), self._engine.now_ms)

    def on_session_opened(self, peer: Peer) -> None:
        """See Observer."""
        self._opened += 1

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer."""
        self._closed[reason] += 1

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

    # -- what is asked ---------------------------------------------------------------------------

    def collect(self) -> Iterable[Family]:
        """Everything at this moment, to be read once, on any thread: what takes long is done by who reads."""
        meters = self._engine.meters
        parts = (*meters.gone(), *meters.each())
        return chain(collect.requests(parts, self._exemplars.copy()), list(self._families()))

    def page(self, *, openmetrics: bool = False) -> bytes:
        """Everything at this moment, as Prometheus reads it. See `page.TEXT` and `page.OPENMETRICS`."""
        return render(self.collect(), openmetrics=openmetrics)

    def _families(self) -> Iterator[Family]:
        """All that is the loop's to read."""
        engine, facts_source = self._engine, self._facts_source
        self._users.fold()
        yield from collect.turns(engine.meters)
        yield collect.single(names.EXEMPT, self._users.exempt)
        yield from collect.users(self._users.series(engine.now_ms), OTHER, facts_source.quota_rate)
        yield from self._pools.families(engine)
        yield from collect.waiting(engine)
        yield from collect.connections(engine, self._opened, self._closed)
        yield collect.single(names.INTERNAL_ERRORS, self._internal_errors)
        if self._policy_errors:
            counts = [MetricPoint(key, count) for key, count in self._policy_errors.items()]
            yield Family(names.POLICY_ERRORS, counts)
        yield from collect.hooks(engine.chain.hook_runner.times)
        for metric, counted in (
            (names.POLICY_OBSERVED, self._policy_observed),
            (names.POLICY_REFUSED, self._policy_refused),
        ):
            if counted:
                yield Family(metric, [MetricPoint(key, count) for key, count in counted.items()])
        if self._push is not None:
            yield from collect.labelled(names.PUSHES, self._push.counts())
        yield from collect.process(facts_source.facts())

    def _fold(self, _: int) -> None:
        self._folding = self._users.fold(MAX_FOLDED)
        if self._folding:
            self._engine.timers.arm(self._engine.now_ms + FOLD_EVERY_MS, self._fold)
