"""Who listens to the core, as the settings want it: the log always, the others where somebody looks.

Rules:
- What is off is not even imported: a sidecar that nobody looks at starts and lives as if all this did not exist.
- The tracer hears first, for it names the traces that the others speak of.
- Everything ends within two seconds, whatever a collector or a disk does.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from proxy.telemetry import sink
from proxy.telemetry.fan import Fan
from proxy.telemetry.log import LogObserver
from proxy.telemetry.traces.resource import wants_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import EffectiveQuota
    from proxy.admin.service import AdminService
    from proxy.config import Config
    from proxy.config.telemetry import AuditSettings, TracesSettings
    from proxy.core.capture import Capture
    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.topic_book import TopicBook
    from proxy.shell.clock import Clock
    from proxy.telemetry.audit import AuditLog
    from proxy.telemetry.metrics.push import Push
    from proxy.telemetry.traces.tracer import Tracer
    from proxy.telemetry.usage_log.usage_log import UsageLogObserver

CLOSE_S = 2.0
"""All of them together."""


class Looking:
    """What is kept for those who look in: metrics, decisions, history, principals, arrivals."""

    def __init__(self, config: Config, now_ms: Callable[[], int]) -> None:
        from proxy.admin.loop_lag import LoopLag  # noqa: PLC0415 - see the module
        from proxy.admin.state import Arrivals  # noqa: PLC0415 - see the module
        from proxy.telemetry.decisions import Decisions  # noqa: PLC0415 - see the module
        from proxy.telemetry.history import History  # noqa: PLC0415 - see the module
        from proxy.telemetry.metrics.observer import Metrics  # noqa: PLC0415 - see the module
        from proxy.telemetry.principals import Principals  # noqa: PLC0415 - see the module
        from proxy.telemetry.signals import Signals  # noqa: PLC0415 - see the module

        self.push = _push() if config.metrics.otlp else None
        self.metrics = Metrics(config.metrics.max_users, self.push)
        self.decisions = Decisions()
        self.history = History()
        self.principals = Principals()
        self.signals = Signals()
        self.arrivals = Arrivals(now_ms)
        self.loop_lag = LoopLag()

    def listeners(self) -> list[Observer]:
        """In the order they hear."""
        return [
            *(self.metrics, self.decisions, self.history, self.principals, self.arrivals),
            self.signals,  # behind the history, which asks it for the second that ends
        ]


class Observers:
    """See the module. `fan` is what the core tells."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        call_at: Callable[[int, Callable[[int], None]], None],
        effective_quota: Callable[[str, str], EffectiveQuota | None],
    ) -> None:
        self._config, self._clock = config, clock
        self.log = LogObserver(clock, call_at)
        self.tracer = _tracer(config.traces)
        is_looked_at = config.admin.is_served or config.metrics.otlp
        self.looking = Looking(config, clock) if is_looked_at else None
        self.audit = _audit(config.audit)
        self.keeps_trails = any((self.tracer, self.looking, self.audit))
        self.capture: Capture | None = None
        self.topic_book: TopicBook | None = None
        self.usage_log = (
            self._make_usage_log(config, clock, effective_quota)
            if config.usage_log.directory
            else None
        )
        listeners: list[Observer] = [self.log]
        if self.tracer is not None:
            listeners.append(self.tracer)
        if self.looking is not None:
            listeners += self.looking.listeners()
        if self.usage_log is not None:
            listeners.append(self.usage_log)
        if self.audit is not None:
            listeners.append(self.audit)
        self.fan = Fan(listeners)

    def look(self) -> Looking:
        """Keep what those who look in want to see, from now on if not yet; `attach` it then."""
        if self.looking is None:
            self.looking = Looking(self._config, self._clock)
            self.fan.add(self.looking.listeners())
        return self.looking

    def attach(self, engine: Engine, service: AdminService | None) -> None:
        """The engine is made, and so is everything else."""
        if self.tracer is not None:
            self.tracer.attach(engine)
        if self.usage_log is not None:
            self.usage_log.attach(engine)
        self.attach_looking(engine, service)

    def attach_looking(self, engine: Engine, service: AdminService | None) -> None:
        """As `attach`, of what is kept for those who look in."""
        if self.looking is not None and service is not None:
            signals = self.looking.signals
            self.looking.metrics.attach(engine, service)
            self.looking.signals.attach(engine)
            self.looking.history.attach(
                engine, self.looking.loop_lag.p99_ms, lambda: signals.errors_in_second
            )

    def start(self) -> None:
        """Begin to deliver and to write. Raises OSError where that cannot be."""
        if self.usage_log is not None:
            self.usage_log.start()
        if self.tracer is not None:
            self.tracer.start()
        if self.looking is not None and self.looking.push is not None:
            self.looking.push.start()
        if self.audit is not None:
            self.audit.start()

    def reopen(self) -> None:
        """Begin files again, as after SIGHUP. The trace file and the audit log look for themselves before each line."""
        sink.reopen()
        if self.usage_log is not None:
            self.usage_log.reopen()

    def close(self) -> None:
        """Deliver and write what is left, within CLOSE_S. Blocks that long."""
        ends_s = time.monotonic() + CLOSE_S
        metrics = None if self.looking is None else self.looking.metrics
        for each in (self.audit, self.usage_log, self.tracer, metrics):
            if each is not None:
                each.close(max(0.1, ends_s - time.monotonic()))

    def _make_usage_log(
        self,
        config: Config,
        clock: Clock,
        effective_quota: Callable[[str, str], EffectiveQuota | None],
    ) -> UsageLogObserver:
        from proxy.core.capture import Capture  # noqa: PLC0415 - see the module
        from proxy.core.topic_book import TopicBook  # noqa: PLC0415 - see the module
        from proxy.telemetry.topic_publisher import OwnAddresses, TopicPublisher  # noqa: PLC0415 - see the module
        from proxy.telemetry.usage_log.usage_log import UsageLogObserver  # noqa: PLC0415 - see the module

        settings, listen = config.usage_log, config.listen
        self.capture = Capture() if "capture" in settings.families else None
        self.topic_book = TopicBook() if "topic" in settings.families else None
        ports = frozenset((listen.port, *listen.node_ports().values()))
        own = OwnAddresses((listen.address, listen.advertised_host), ports)
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
            topic_book=self.topic_book,
            publisher=(
                TopicPublisher(config.upstream.addresses(), settings.topic, own)
                if settings.topic
                else None
            ),
            spans_dropped=lambda: 0 if tracer is None else tracer.dropped,
        )


def load_looking() -> None:
    """Import what `Looking` needs, on any thread."""
    from proxy.admin import loop_lag, state  # noqa: F401, PLC0415 - see the module
    from proxy.telemetry import decisions, history, principals, signals  # noqa: F401, PLC0415 - see the module
    from proxy.telemetry.metrics import observer  # noqa: F401, PLC0415 - see the module


def _push() -> Push:
    from proxy.telemetry.metrics.push import Push  # noqa: PLC0415 - see the module

    return Push(_version())


def _audit(audit: AuditSettings) -> AuditLog | None:
    if not audit.file:
        return None
    from proxy.telemetry.audit import AuditLog  # noqa: PLC0415 - see the module

    return AuditLog(audit.file, audit.max_file_bytes)


def _tracer(traces: TracesSettings) -> Tracer | None:
    if not wants_traces(traces.export, traces.file, os.environ):
        return None
    from proxy.telemetry.traces.choice import make_tracer  # noqa: PLC0415 - see the module

    return make_tracer(
        export=traces.export,
        file=traces.file,
        max_file_bytes=traces.max_file_bytes,
        max_spans_per_second=traces.max_spans_per_second,
        version=_version(),
    )


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - it takes as long as all of the above

    return version("kafka-sluice")
