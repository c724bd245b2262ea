"""The thread that makes rows of the loop's readings, writes them and passes them to the publisher.

Rules:
- The loop only puts a Second into a bounded queue (`has_room`). Rows that do not fit are counted,
  and their `seq` is missing: a slow disk costs rows, never requests.
- The thread wakes once a second for new rows, and when a segment must be closed.
- `close` waits no longer than its timeout. Rows not written by then (`unwritten`) are lost; a segment left open is
  recovered later.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from proxy.telemetry.usage_log.deltas import InstanceDeltas, Losses, MeterDeltas
from proxy.telemetry.usage_log.missing_rights import Taken, count_rights
from proxy.telemetry.usage_log.rows import access_rows, capture_rows, entity_rows, topic_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.api import EffectiveQuota
    from proxy.core.stats.capture import Seen
    from proxy.core.stats.meters import Meter
    from proxy.core.stats.topic_usage import TopicUse
    from proxy.core.stats.usage import UsageRow
    from proxy.telemetry.topic_publisher import TopicPublisher
    from proxy.telemetry.usage_log.deltas import InstanceReading, MeterReading
    from proxy.telemetry.usage_log.retention import SegmentWriter
    from proxy.telemetry.usage_log.rows import Row, Sequencer

MAX_QUEUED_ROWS: Final = 50_000
"""Rows in the queue, approximately; 20 MB."""
_MAX_WAIT_S: Final = 3600.0


class Second(NamedTuple):
    """The loop's readings of one second. A family that is off, or had no rows, is empty."""

    ts_ms: int
    rows: Sequence[UsageRow] = ()
    effective_quota: Sequence[EffectiveQuota | None] = ()
    meters: Sequence[MeterReading] = ()
    retired: Sequence[Meter] = ()
    instance: InstanceReading | None = None
    topics: Sequence[TopicUse] = ()
    observed: Taken = Taken()
    captured: Sequence[Seen] = ()
    spans_dropped: int = 0

    @property
    def size(self) -> int:
        """Return how many rows it makes, approximately."""
        families = (self.rows, self.meters, self.topics, self.captured)
        return sum(map(len, families)) + self.observed.rights + 1


class WriterThread:
    """Takes Seconds with `put` and writes their rows. `work` is one round of the thread."""

    def __init__(
        self,
        writer: SegmentWriter,
        sequencer: Sequencer,
        version: str,
        clock: Callable[[], int],
        publisher: TopicPublisher | None = None,
    ) -> None:
        self._writer = writer
        self._sequencer = sequencer
        self._clock = clock
        self._publisher = publisher
        self._meters = MeterDeltas()
        self._instance = InstanceDeltas(version)
        self._queue: deque[tuple[Second, dict[str, int]]] = deque()  # with the rows lost before it
        self._queued = 0  # rows ever queued; each side writes its own count, so no lock is needed
        self._taken = 0
        self._lost = 0  # rows never queued
        self._lost_since: dict[str, int] = {}  # of these, since the last put, by family
        self._log = structlog.get_logger()
        self._has_fault = False
        self._wake = Event()
        self._closing = False
        self._must_reopen = False
        self._thread = Thread(target=self._run, name="usage-log", daemon=True)

    @property
    def dropped(self) -> int:
        """Return how many rows were lost: never queued, or refused by the disk."""
        return self._lost + self._writer.dropped

    @property
    def has_room(self) -> bool:
        """Return whether the queue takes another Second; if not, call `lose`."""
        return self.unwritten < MAX_QUEUED_ROWS

    @property
    def unwritten(self) -> int:
        """Return how many rows are queued, approximately."""
        return self._queued - self._taken

    def lose(self, family: str, rows: int) -> None:
        """Count rows that the queue has no room for; their `seq` will be missing."""
        self._lost += rows
        self._lost_since[family] = self._lost_since.get(family, 0) + rows

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, second: Second) -> None:
        """Queue a Second. The loop calls this; it never blocks."""
        self._queued += second.size
        lost, self._lost_since = self._lost_since, {}
        self._queue.append((second, lost))
        self._wake.set()

    def reopen(self) -> None:
        """Close the open segments, so that readers see them. The loop calls this; it never blocks."""
        self._must_reopen = True
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Write what is queued and close the segments; return False if that is not done in time."""
        self._closing = True
        self._wake.set()
        if self._thread.ident is None:  # it was never started
            self._finish()
        else:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing:
            due_ms = self._writer.next_tick_ms()
            wait_s = _MAX_WAIT_S if due_ms is None else max(0, due_ms - self._clock()) / 1000
            self._wake.wait(wait_s)
            self._wake.clear()
            self.work()
        self._finish()

    def _finish(self) -> None:
        self.work()
        self._writer.close()

    def work(self) -> None:
        """Write everything that is queued and close the segments that are due."""
        while self._queue:
            second, lost = self._queue.popleft()
            for family, rows in lost.items():
                self._sequencer.skip(family, rows)
            try:
                self._write(second)
            except Exception as error:  # noqa: BLE001 - a bug in one second must not end the others
                self._log.error("usage_log_failed", exc_info=error)
            self._taken += second.size
        if self._must_reopen:
            self._must_reopen = False
            self._writer.close()
        self._writer.tick(self._clock())
        self._log_fault()

    def _write(self, second: Second) -> None:
        sequencer, ts_ms = self._sequencer, second.ts_ms
        self._append("entity", list(entity_rows(sequencer, second.rows, second.effective_quota)))
        self._append("api", list(self._meters.rows(sequencer, ts_ms, second.meters)))
        self._meters.forget(second.retired)
        self._append("topic", list(topic_rows(sequencer, ts_ms, second.topics)))
        rights = count_rights(second.observed.decisions)
        self._append("access", list(access_rows(sequencer, ts_ms, rights)))
        self._append("capture", list(capture_rows(sequencer, second.captured)))
        if second.instance is not None:
            lost = Losses(
                rows=self.dropped,
                unpublished=0 if self._publisher is None else self._publisher.lost,
                spans=second.spans_dropped,
                files=self._writer.deleted,
            )
            row = self._instance.row(sequencer, ts_ms, second.instance, lost)
            self._append("instance", [row])

    def _append(self, family: str, rows: Sequence[Row]) -> None:
        lines = self._writer.write(family, rows, self._clock())
        if self._publisher is not None and rows:
            self._publisher.publish(zip(map(_key, rows), lines.split(b"\n"), strict=False))

    def _log_fault(self) -> None:
        """Log once when the disk begins to refuse rows, and once when it takes them again."""
        fault = self._writer.fault
        if fault is not None and not self._has_fault:
            self._log.warning("usage_log_not_written", reason=str(fault))
        elif fault is None and self._has_fault:
            self._log.info("usage_log_written_again", dropped=self.dropped)
        self._has_fault = fault is not None


def _key(row: Row) -> bytes:
    """Return the message key: rows of one client stay in order."""
    return f"{row.instance}|{getattr(row, 'user', '')}|{getattr(row, 'client_id', '')}".encode()
