"""The observers that the metrics and the admin server read. A sidecar without both does not import them."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from proxy.telemetry.client_activity import ClientActivity, ConnectionTimes
from proxy.telemetry.decisions import Decisions
from proxy.telemetry.golden_signals import GoldenSignals
from proxy.telemetry.history import History
from proxy.telemetry.loop_lag import LoopLag
from proxy.telemetry.metrics.metrics_observer import MetricsObserver
from proxy.telemetry.metrics.push import MetricPush

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config
    from proxy.core.observer import Observer


class Monitoring:
    """The observers that the metrics and the admin server read."""

    def __init__(self, config: Config, now_ms: Callable[[], int]) -> None:
        self.push = MetricPush(version("kafka-sluice")) if config.metrics.otlp else None
        of = config.metrics
        self.metrics = MetricsObserver(of.max_users, self.push, of.max_quota_entities)
        self.decisions = Decisions()
        self.history = History()
        self.principals = ClientActivity()
        self.signals = GoldenSignals()
        self.connection_times = ConnectionTimes(now_ms)
        self.loop_lag = LoopLag()

    def observers(self) -> list[Observer]:
        """Return the observers in the order in which they are called."""
        return [
            *(self.metrics, self.decisions, self.history, self.principals, self.connection_times),
            self.signals,  # after the history, which reads the errors of the second that ends
        ]
