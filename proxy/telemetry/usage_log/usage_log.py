"""The loop's part of the usage log: once a second it copies counters and hands them to the writer's thread.

Rules:
- `on_second` neither encodes nor touches the disk.
- `close` writes the current second as well.
- A capture ends after `capture_max_ms`; then requests take the fast loop again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from proxy.core.observer import Observer
from proxy.telemetry.usage_log.deltas import MeterReader, read_instance
from proxy.telemetry.usage_log.missing_rights import MissingRights
from proxy.telemetry.usage_log.retention import SegmentWriter
from proxy.telemetry.usage_log.rows import Sequencer
from proxy.telemetry.usage_log.segment import new_boot
from proxy.telemetry.usage_log.writer_thread import Second, WriterThread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from policies.api import EffectiveQuota
    from policies.decision import PolicyDecision
    from proxy.core.engine import Engine
    from proxy.core.stats.meters import Meter
    from proxy.core.stats.topic_usage import TopicUsage
    from proxy.core.stats.usage import UsageRow
    from proxy.telemetry.topic_publisher import TopicPublisher
    from proxy.telemetry.usage_log.deltas import MeterReading


class UsageLogObserver(Observer):
    """Writes the usage log of one engine: `attach` it, `start`, and `close` after the last session.

    `effective_quota(user, client_id)` is called on the loop for every active key of a second.
    """

    def __init__(
        self,
        directory: str,
        instance: str,
        families: Collection[str],
        *,
        clock: Callable[[], int],
        effective_quota: Callable[[str, str], EffectiveQuota | None],
        version: str = "",
        rotate_ms: int = 60_000,
        rotate_bytes: int = 16 << 20,
        keep_bytes: int = 1 << 30,
        capture_max_ms: int = 600_000,
        topic_usage: TopicUsage | None = None,
        publisher: TopicPublisher | None = None,
        spans_dropped: Callable[[], int] = lambda: 0,
    ) -> None:
        start_ms = clock()
        sequencer = Sequencer(instance, new_boot(start_ms))
        self._families = frozenset(families)
        self._effective_quota = effective_quota
        self._topic_book = topic_usage
        self._missing_rights = MissingRights()
        self._spans_dropped = spans_dropped
        self._capture_ends_ms = start_ms + capture_max_ms
        self._writer = SegmentWriter(
            Path(directory),
            instance,
            sequencer.boot,
            rotate_ms=rotate_ms,
            rotate_bytes=rotate_bytes,
            keep_bytes=keep_bytes,
            families=len(self._families),
        )
        self._publisher = publisher
        self._thread = WriterThread(self._writer, sequencer, version, clock, publisher)
        self._engine: Engine | None = None
        self._meters: MeterReader | None = None
        self._closing = False  # the current second is the last
        self._closed = False

    @property
    def dropped(self) -> int:
        """Return how many rows were lost before they reached the disk."""
        capture = None if self._engine is None else self._engine.capture
        return self._thread.dropped + (0 if capture is None else capture.dropped)

    def attach(self, engine: Engine) -> None:
        """Set the engine to read."""
        self._engine = engine
        if "api" in self._families:
            self._meters = MeterReader(engine.meters)

    def start(self) -> None:
        """Recover what an earlier process left open, then start the threads. Raises OSError."""
        recovered = self._writer.open()
        if recovered.files:
            structlog.get_logger().info("usage_log_recovered", **recovered._asdict())
        self._thread.start()
        if self._publisher is not None:
            self._publisher.start()

    def reopen(self) -> None:
        """Close the open segments, so that readers see them, and begin new ones."""
        self._thread.reopen()

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer."""
        if "access" in self._families:
            self._missing_rights.add(decision)

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        engine = self._engine
        if engine is None or self._closed:
            return
        families, thread, usage = self._families, self._thread, engine.usage
        capture, book = engine.capture, self._topic_book
        captured = () if capture is None else capture.take()
        topics = () if book is None else book.take()
        observed = self._missing_rights.take()
        if observed.lost:
            thread.lose("access", observed.lost)
        if capture is not None and capture.open and engine.now_ms >= self._capture_ends_ms:
            engine.end_capture()
        if not thread.has_room:
            if self._meters is not None:  # the meters continue to count, so hardly anything is lost
                active = [(row.user, row.client_id) for row in rows]
                thread.lose("api", self._meters.skip(active, usage.keys, usage.gone))
            if "entity" in families:
                thread.lose("entity", len(rows))
            thread.lose("topic", len(topics))
            thread.lose("access", observed.rights)
            thread.lose("capture", len(captured))
            return
        meters, retired = self._read_meters(engine, rows)
        entities = rows if "entity" in families else ()
        effective_quota = self._effective_quota
        thread.put(
            Second(
                ts_ms,
                rows=entities,
                effective_quota=[effective_quota(row.user, row.client_id) for row in entities],
                meters=meters,
                retired=retired,
                instance=read_instance(engine, len(rows)) if "instance" in families else None,
                topics=topics,
                observed=observed,
                captured=captured,
                spans_dropped=self._spans_dropped(),
            )
        )

    def _read_meters(
        self, engine: Engine, rows: Sequence[UsageRow]
    ) -> tuple[list[MeterReading], list[Meter]]:
        meters = self._meters
        if meters is None:
            return [], []
        if self._closing:
            return meters.read_all(), []
        usage = engine.usage
        active = [(row.user, row.client_id) for row in rows]
        return meters.read(active, usage.keys, usage.gone)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write the current second and close the segments. Blocks for `timeout_s` at most."""
        until_s = time.monotonic() + timeout_s
        if self._engine is not None and not self._closed:
            self._closing = True
            self._engine.usage.roll(self._engine.now_ms)
        self._closed = True
        if not self._thread.close(timeout_s):
            structlog.get_logger().warning("usage_log_incomplete", rows=self._thread.unwritten)
        if self._publisher is not None:
            self._publisher.close(max(0.0, until_s - time.monotonic()))
