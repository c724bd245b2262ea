"""The thread that makes rows of what the loop hands over, writes them, and passes them on to a publisher.

Rules:
- The loop only puts a Second into a queue that has an end (`has_room`): what does not fit is counted, and
  missed in `seq`. So a disk that hangs costs rows, never a request.
- It wakes once a second for new rows, or when a file has to be closed.
- `close` waits no longer than it is told. What is not written then is lost; what is half written is adopted later.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from proxy.telemetry.usage_log.capture_rows import capture_rows
from proxy.telemetry.usage_log.instance_rows import InstanceDiffs, Losses
from proxy.telemetry.usage_log.meter_rows import MeterDiffs
from proxy.telemetry.usage_log.rows import entity_rows
from proxy.telemetry.usage_log.topic_rows import topic_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.api import EffectiveQuota
    from proxy.core.capture import Seen
    from proxy.core.meters import Meter
    from proxy.core.topic_book import TopicUse
    from proxy.core.usage import UsageRow
    from proxy.telemetry.usage_log.instance_rows import InstanceReading
    from proxy.telemetry.usage_log.meter_rows import Reading
    from proxy.telemetry.usage_log.rows import Row, Stamp
    from proxy.telemetry.usage_log.writer import Writer

QUEUE_MOST_ROWS: Final = 50_000
"""Handed over and not written yet, about; 20 MB."""
_LONGEST_WAIT_S: Final = 3600.0


class Second(NamedTuple):
    """What the loop knows of one second. An empty family is one that is not wanted, or had nothing."""

    ts_ms: int
    rows: Sequence[UsageRow] = ()
    effective_quota: Sequence[EffectiveQuota | None] = ()
    meters: Sequence[Reading] = ()
    retired: Sequence[Meter] = ()
    instance: InstanceReading | None = None
    topics: Sequence[TopicUse] = ()
    seen: Sequence[Seen] = ()
    spans_dropped: int = 0

    @property
    def size(self) -> int:
        """About how many rows it makes."""
        return len(self.rows) + len(self.meters) + len(self.topics) + len(self.seen) + 1


class Outlet(Protocol):
    """Where rows go besides the files: see `publisher`."""

    @property
    def lost(self) -> int:
        """Rows that did not get there."""

    def publish(self, rows: Sequence[Row], lines: bytes) -> None:
        """Take these rows, encoded one a line; never waits."""


class Scribe:
    """See the module."""

    def __init__(
        self,
        writer: Writer,
        stamp: Stamp,
        version: str,
        clock: Callable[[], int],
        outlet: Outlet | None = None,
    ) -> None:
        self._writer = writer
        self._stamp = stamp
        self._clock = clock
        self._outlet = outlet
        self._meters = MeterDiffs()
        self._instance = InstanceDiffs(version)
        self._queue: deque[tuple[Second, dict[str, int]]] = deque()  # with what was lost before it
        self._queued = (
            0  # rows that were ever put in; each side has its own count, so there is no lock
        )
        self._taken = 0
        self._lost = 0  # rows that were never put in
        self._lost_lately: dict[str, int] = {}  # of these, those since the last that was, by family
        self._log = structlog.get_logger()
        self._faulty = False
        self._woken = Event()
        self._closing = False
        self._must_reopen = False
        self._thread = Thread(target=self._run, name="usage-log", daemon=True)

    @property
    def dropped(self) -> int:
        """Rows that were neither written nor will be."""
        return self._lost + self._writer.dropped

    @property
    def has_room(self) -> bool:
        """Whether another second may be put in; otherwise `lose` it."""
        return self._queued - self._taken < QUEUE_MOST_ROWS

    def lose(self, family: str, rows: int) -> None:
        """Rows of a second that there is no room for: counted, and missed in `seq`."""
        self._lost += rows
        self._lost_lately[family] = self._lost_lately.get(family, 0) + rows

    def start(self) -> None:
        """From now on rows are taken."""
        self._thread.start()

    def put(self, second: Second) -> None:
        """Hand over a second. Called on the loop; never waits."""
        self._queued += second.size
        lost, self._lost_lately = self._lost_lately, {}
        self._queue.append((second, lost))
        self._woken.set()

    def reopen(self) -> None:
        """Show what is written so far, and begin new files. Called on the loop; never waits."""
        self._must_reopen = True
        self._woken.set()

    def close(self, timeout_s: float) -> bool:
        """Write what is queued and close the files; False: that took too long, and goes on by itself."""
        self._closing = True
        self._woken.set()
        if self._thread.ident is None:  # it was never started
            self._finish()
        else:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closing:
            due_ms = self._writer.next_ms()
            wait_s = _LONGEST_WAIT_S if due_ms is None else max(0, due_ms - self._clock()) / 1000
            self._woken.wait(wait_s)
            self._woken.clear()
            self.work()
        self._finish()

    def _finish(self) -> None:
        self.work()
        self._writer.close()

    def work(self) -> None:
        """Write all that is queued, and close what is due."""
        while self._queue:
            second, lost = self._queue.popleft()
            for family, rows in lost.items():
                self._stamp.skip(family, rows)
            try:
                self._write(second)
            except Exception as error:  # noqa: BLE001 - a bug in one second must not end the others
                self._log.error("usage_log_failed", exc_info=error)
            self._taken += second.size
        if self._must_reopen:
            self._must_reopen = False
            self._writer.close()
        self._writer.tick(self._clock())
        self._tell()

    def _write(self, second: Second) -> None:
        stamp, ts_ms = self._stamp, second.ts_ms
        self._append("entity", list(entity_rows(stamp, second.rows, second.effective_quota)))
        self._append("api", list(self._meters.rows(stamp, ts_ms, second.meters)))
        self._meters.forget(second.retired)
        self._append("topic", list(topic_rows(stamp, ts_ms, second.topics)))
        self._append("capture", list(capture_rows(stamp, second.seen)))
        if second.instance is not None:
            lost = Losses(
                rows=self.dropped,
                unpublished=0 if self._outlet is None else self._outlet.lost,
                spans=second.spans_dropped,
                files=self._writer.deleted,
            )
            row = self._instance.row(stamp, ts_ms, second.instance, lost)
            self._append("instance", [row])

    def _append(self, family: str, rows: Sequence[Row]) -> None:
        lines = self._writer.write(family, rows, self._clock())
        if self._outlet is not None and rows:
            self._outlet.publish(rows, lines)

    def _tell(self) -> None:
        """Once when the disk begins to refuse, and once when it is well again."""
        fault = self._writer.fault
        if fault is not None and not self._faulty:
            self._log.warning("usage_log_not_written", reason=str(fault))
        elif fault is None and self._faulty:
            self._log.info("usage_log_written_again", dropped=self.dropped)
        self._faulty = fault is not None
