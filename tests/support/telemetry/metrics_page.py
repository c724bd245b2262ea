"""MetricsObserver on an engine of the tests' own, and the page as the parser of prometheus_client reads it."""

from collections.abc import Sequence

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from policies.api import Policy
from proxy.core.engine import Engine
from proxy.telemetry.facts import Facts, ProcessFacts, QuotaEntities
from proxy.telemetry.metrics.exposition import render
from proxy.telemetry.metrics.metrics_observer import MetricsObserver
from tests.support.core.sessions import Wire, make_engine

PROCESS = ProcessFacts(50_000_000, 1.5, 12, 1024, 1.7e9)
FACTS = Facts("1.2.3", PROCESS)


class FakeFactsSource:
    """A FactsSource with fixed answers."""

    def __init__(self, facts: Facts = FACTS, quotas: dict[str, float] | None = None) -> None:
        self.now = facts
        self.quotas = quotas or {}
        self.entities: list[QuotaEntities] = []

    def facts(self) -> Facts:
        return self.now

    def quota_rate(self, user: str) -> float | None:
        return self.quotas.get(user)

    def quota_entities(self, now_ms: int) -> list[QuotaEntities]:
        return self.entities


def listen(
    policies: Sequence[Policy] = (),
    max_users: int = 100,
    facts_source: FakeFactsSource | None = None,
    **options,
) -> tuple[Wire, MetricsObserver]:
    """Return a session whose engine has MetricsObserver as its only observer."""
    metrics = MetricsObserver(max_users)
    engine = make_engine(policies, **options)
    hear(engine, metrics)
    metrics.attach(engine, facts_source or FakeFactsSource())
    return Wire(engine), metrics


def hear(engine: Engine, metrics: MetricsObserver) -> None:
    """Make this the engine's observer, instead of the present one."""
    engine.observer = metrics
    engine.usage._on_second = metrics.on_second
    engine.topology._observer = metrics


def page_of(metrics: MetricsObserver, *, openmetrics: bool = True) -> bytes:
    """Return the page of this moment."""
    return render(metrics.collect(), openmetrics=openmetrics)


def read(
    metrics: MetricsObserver, *, openmetrics: bool = True
) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> label values, in the order of their names -> value."""
    page = page_of(metrics, openmetrics=openmetrics).decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in (read_openmetrics if openmetrics else read_text)(page):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in found.get(sample.name, {}), f"{sample.name}{labels} twice"
            found.setdefault(sample.name, {})[labels] = sample.value
    return found
