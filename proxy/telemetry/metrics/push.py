"""Sends the metrics to a collector at intervals, from a thread of its own.

Rules:
- The loop queues the families; only the thread waits for a collector.
- One push may be queued. If the collector is slower than the interval, the older one is dropped and counted.
- `OTEL_METRIC_EXPORT_INTERVAL` (milliseconds) is the interval; the SDK reads all other OTEL_* variables.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from proxy.telemetry.metrics.families import Family

INTERVAL_MS = 60_000
MIN_INTERVAL_MS = 1000


class MetricExporter(Protocol):
    """The part of `OtlpMetricExporter` that the thread uses."""

    def export(self, families: Iterable[Family], at_ms: int) -> bool:
        """Send the families; return whether they arrived. Retries, and may block for long."""

    def shutdown(self) -> None:
        """Interrupt an export in progress."""


def load_otlp(version: str) -> MetricExporter:
    """Return the exporter of the SDK.

    Raises:
        ImportError: the SDK is not installed.
        ValueError: an OTEL_* variable is invalid.
    """
    # The SDK is large, and few users push metrics.
    from proxy.telemetry.metrics.otlp_metrics import OtlpMetricExporter  # noqa: PLC0415 - see above

    return OtlpMetricExporter(version)


class MetricPush:
    """Pushes metrics: call `start` once and `close` once. `version` is Sluice's."""

    def __init__(
        self,
        version: str,
        load: Callable[[str], MetricExporter] = load_otlp,
        interval_ms: int | None = None,
    ) -> None:
        self._version = version
        self._load = load
        self.interval_ms = _interval_ms() if interval_ms is None else interval_ms
        self._due_ms: int | None = None
        self._waiting: tuple[Iterable[Family], int] | None = None
        self._counts = {"success": 0, "failure": 0, "dropped": 0}
        self._wake = threading.Event()
        self._closing = False
        self._exporter: MetricExporter | None = None
        self._thread = threading.Thread(target=self._run, name="metrics-push", daemon=True)

    def start(self) -> None:
        """Load the exporter and start the thread. Raises what `load` raises."""
        self._exporter = self._load(self._version)
        self._thread.start()

    def is_due(self, now_ms: int) -> bool:
        """Return whether the next push is due; true once per interval."""
        if self._due_ms is None:
            self._due_ms = now_ms + self.interval_ms
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self.interval_ms
        return True

    def send(self, families: Iterable[Family], at_ms: int) -> None:
        """Queue the families that were collected at `at_ms`. Never blocks."""
        if self._waiting is not None:
            self._counts["dropped"] += 1
        self._waiting = (families, at_ms)
        self._wake.set()

    def counts(self) -> Mapping[str, int]:
        """Return how many pushes succeeded, failed, or were replaced by a newer one."""
        return self._counts

    def close(self, timeout_s: float = 2.0) -> None:
        """Send the queued families if the collector takes them within `timeout_s`."""
        if self._exporter is None:
            return
        deadline = time.monotonic() + timeout_s
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s / 2)
        self._exporter.shutdown()
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        exporter = self._exporter
        assert exporter is not None  # noqa: S101 - `start` has set it
        while True:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                try:
                    arrived = exporter.export(*waiting)
                except Exception:  # noqa: BLE001 - any error means that the push failed
                    arrived = False
                self._counts["success" if arrived else "failure"] += 1
            if closing:
                return


def _interval_ms() -> int:
    try:
        wanted = int(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", INTERVAL_MS))
    except ValueError:
        return INTERVAL_MS
    return max(wanted, MIN_INTERVAL_MS)
