"""Assembles the observers of the core from the configuration: the log always, the others when they are configured.

Rules:
- A part that is off is not imported: a sidecar without an admin server, metrics, traces, audit and usage log pays
  nothing for them.
- The tracer is called first: it names the traces that the others refer to.
- Everything closes within CLOSE_S together, even if a collector or a disk hangs.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from proxy.telemetry import stderr
from proxy.telemetry.broadcast import Broadcast
from proxy.telemetry.line_limits import LastCounts
from proxy.telemetry.log import LogObserver, tell_suppressed
from proxy.telemetry.traces.resource import wants_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import EffectiveQuota
    from proxy.config import Config
    from proxy.config.telemetry import AuditSettings, TracesSettings
    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.stats.capture import Capture
    from proxy.core.stats.topic_usage import TopicUsage
    from proxy.telemetry.audit_log import AuditLog
    from proxy.telemetry.facts import FactsSource
    from proxy.telemetry.monitoring import Monitoring
    from proxy.telemetry.traces.tracer import Tracer
    from proxy.telemetry.usage_log.usage_log import UsageLogObserver

CLOSE_S = 2.0
"""The time that all parts together may take to close."""


class Telemetry:
    """The configured observers of one proxy. The core calls `broadcast`.

    `token` returns a token for the publisher of the usage log; it may block, and is called in a thread.
    """

    def __init__(
        self,
        config: Config,
        clock: Callable[[], int],
        call_at: Callable[[int, Callable[[int], None]], None],
        effective_quota: Callable[[str, str], EffectiveQuota | None],
        token: Callable[[], str],
    ) -> None:
        self._config, self._clock = config, clock
        self.last_counts = LastCounts(tell_suppressed)
        self.log = LogObserver(clock, call_at, self.last_counts.note)
        self.tracer = _tracer(config.traces)
        is_monitored = config.admin.is_served or config.metrics.otlp
        self.monitoring = _monitoring(config, clock) if is_monitored else None
        self.audit = _audit(config.audit, self.last_counts)
        self.keeps_traces = any((self.tracer, self.monitoring, self.audit))
        self.capture: Capture | None = None
        self.topic_usage: TopicUsage | None = None
        self.usage_log = self._make_usage_log(config, clock, effective_quota, token)
        observers: list[Observer] = [self.log]
        if self.tracer is not None:
            observers.append(self.tracer)
        if self.monitoring is not None:
            observers += self.monitoring.observers()
        if self.usage_log is not None:
            observers.append(self.usage_log)
        if self.audit is not None:
            observers.append(self.audit)
        self.broadcast = Broadcast(observers)

    def monitor(self) -> Monitoring:
        """Return the monitoring; start it if it is off, and then call `attach_monitoring`."""
        if self.monitoring is None:
            self.monitoring = _monitoring(self._config, self._clock)
            self.broadcast.add(self.monitoring.observers())
        return self.monitoring

    def attach(self, engine: Engine, facts: FactsSource | None) -> None:
        """Connect the observers to the engine, before the first client."""
        if self.tracer is not None:
            self.tracer.attach(engine)
        if self.usage_log is not None:
            self.usage_log.attach(engine)
        self.attach_monitoring(engine, facts)

    def attach_monitoring(self, engine: Engine, facts: FactsSource | None) -> None:
        """Connect the monitoring to the engine and the source of its other figures."""
        if self.monitoring is not None and facts is not None:
            signals = self.monitoring.signals
            self.monitoring.metrics.attach(engine, facts)
            self.monitoring.signals.attach(engine)
            self.monitoring.history.attach(
                engine, self.monitoring.loop_lag.p99_ms, lambda: signals.errors_in_second
            )

    def start(self) -> None:
        """Start the threads and open the files. Raises OSError if a file cannot be opened."""
        if self.usage_log is not None:
            self.usage_log.start()
        if self.tracer is not None:
            self.tracer.start()
        if self.monitoring is not None and self.monitoring.push is not None:
            self.monitoring.push.start()
        if self.audit is not None:
            self.audit.start()

    def reopen(self) -> None:
        """Reopen the log and the usage log, as after SIGHUP. The other files notice a rename themselves."""
        stderr.reopen()
        if self.usage_log is not None:
            self.usage_log.reopen()

    def close(self) -> None:
        """Deliver and write what is left. Blocks for CLOSE_S at most."""
        ends_s = time.monotonic() + CLOSE_S
        metrics = None if self.monitoring is None else self.monitoring.metrics
        for each in (self.log, self.audit, self.usage_log, self.tracer, metrics):
            if each is not None:
                each.close(max(0.1, ends_s - time.monotonic()))

    def _make_usage_log(
        self,
        config: Config,
        clock: Callable[[], int],
        effective_quota: Callable[[str, str], EffectiveQuota | None],
        token: Callable[[], str],
    ) -> UsageLogObserver | None:
        settings, listen = config.usage_log, config.listen
        if not settings.directory:
            return None
        from proxy.core.stats.capture import Capture  # noqa: PLC0415 - see the module
        from proxy.core.stats.topic_usage import TopicUsage  # noqa: PLC0415 - see the module
        from proxy.telemetry.publisher_security import security_settings  # noqa: PLC0415 - see the module
        from proxy.telemetry.topic_publisher import OwnAddresses, TopicPublisher  # noqa: PLC0415 - see the module
        from proxy.telemetry.usage_log.usage_log import UsageLogObserver  # noqa: PLC0415 - see the module

        self.capture = Capture() if "capture" in settings.families else None
        self.topic_usage = TopicUsage() if "topic" in settings.families else None
        own = OwnAddresses({listen.address, *listen.advertised_hosts()}, listen.client_ports())
        tracer = self.tracer
        return UsageLogObserver(
            settings.directory,
            settings.instance or socket.gethostname(),
            settings.families,
            clock=clock,
            effective_quota=effective_quota,
            version=_version(),
            rotate_ms=settings.rotate_ms,
            rotate_bytes=settings.rotate_bytes,
            keep_bytes=settings.keep_bytes,
            capture_max_ms=settings.max_capture_seconds * 1000,
            topic_usage=self.topic_usage,
            publisher=(
                TopicPublisher(
                    config.upstream.addresses(),
                    settings.topic,
                    own,
                    security=lambda: security_settings(config.upstream, token),
                )
                if settings.topic
                else None
            ),
            spans_dropped=lambda: 0 if tracer is None else tracer.dropped,
        )


def _audit(audit: AuditSettings, counts: LastCounts) -> AuditLog | None:
    if not audit.file:
        return None
    from proxy.telemetry.audit_log import AuditLog  # noqa: PLC0415 - see the module

    return AuditLog(audit.file, audit.max_file_bytes, counts)


def _tracer(traces: TracesSettings) -> Tracer | None:
    if not wants_traces(traces.export, traces.file, os.environ):
        return None
    from proxy.telemetry.traces.exporters import make_tracer  # noqa: PLC0415 - see the module

    return make_tracer(
        export=traces.export,
        file=traces.file,
        max_file_bytes=traces.max_file_bytes,
        max_spans_per_second=traces.max_spans_per_second,
        version=_version(),
    )


def _monitoring(config: Config, clock: Callable[[], int]) -> Monitoring:
    from proxy.telemetry.monitoring import Monitoring  # noqa: PLC0415 - see the module

    return Monitoring(config, clock)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - it takes as long as all of the above

    return version("kafka-sluice")
