"""Usage records: once a second the loop's part, which only looks and hands over.

Rules:
- `on_second` copies what the families need and gives it to the Scribe's thread: no encoding, no disk.
- The second that runs when the proxy ends is written, too (`close`).
- A capture ends after `capture_most_ms`; then the requests take the fast loop again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from proxy.core.observer import Observer
from proxy.telemetry.usage_log import instance_rows
from proxy.telemetry.usage_log.meter_rows import MeterWatch
from proxy.telemetry.usage_log.names import new_boot
from proxy.telemetry.usage_log.rows import Stamp
from proxy.telemetry.usage_log.writer import Writer
from proxy.telemetry.usage_log.writer_thread import Scribe, Second

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from policies.api import EffectiveQuota
    from proxy.core.engine import Engine
    from proxy.core.meters import Meter
    from proxy.core.topic_book import TopicBook
    from proxy.core.usage import UsageRow
    from proxy.telemetry.usage_log.meter_rows import Reading
    from proxy.telemetry.usage_log.publisher import Publisher


class UsageLogObserver(Observer):
    """See the module. `attach` the engine, `start`, and `close` after the last session is gone.

    `effective_quota` says what holds for (user, client id); asked on the loop for every active key of a second.
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
        capture_most_ms: int = 600_000,
        topic_book: TopicBook | None = None,
        publisher: Publisher | None = None,
        spans_dropped: Callable[[], int] = lambda: 0,
    ) -> None:
        began_ms = clock()
        stamp = Stamp(instance, new_boot(began_ms))
        self._families = frozenset(families)
        self._effective_quota = effective_quota
        self._topic_book = topic_book
        self._spans_dropped = spans_dropped
        self._capture_ends_ms = began_ms + capture_most_ms
        self._writer = Writer(
            Path(directory),
            instance,
            stamp.boot,
            rotate_ms=rotate_ms,
            rotate_bytes=rotate_bytes,
            keep_bytes=keep_bytes,
            families=len(self._families),
        )
        self._publisher = publisher
        self._scribe = Scribe(self._writer, stamp, version, clock, publisher)
        self._engine: Engine | None = None
        self._watch: MeterWatch | None = None
        self._closing = False  # this second is the last
        self._closed = False

    @property
    def dropped(self) -> int:
        """Rows that were lost on their way to the files."""
        captured = None if self._engine is None else self._engine.capture
        return self._scribe.dropped + (0 if captured is None else captured.dropped)

    def attach(self, engine: Engine) -> None:
        """Whose requests are recorded."""
        self._engine = engine
        if "api" in self._families:
            self._watch = MeterWatch(engine.meters)

    def start(self) -> None:
        """Take in what an earlier process left behind, then begin to write. Raises OSError."""
        adopted = self._writer.open()
        if adopted.files:
            structlog.get_logger().info(
                "usage_log_recovered", files=adopted.files, torn_bytes=adopted.torn_bytes
            )
        self._scribe.start()
        if self._publisher is not None:
            self._publisher.start()

    def reopen(self) -> None:
        """Close the files that grow, so that readers see them, and begin new ones."""
        self._scribe.reopen()

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        engine = self._engine
        if engine is None or self._closed:
            return
        families, scribe = self._families, self._scribe
        capture, book = engine.capture, self._topic_book
        seen = () if capture is None else capture.take()
        topics = () if book is None else book.take()
        if capture is not None and capture.open and engine.now_ms >= self._capture_ends_ms:
            engine.end_capture()
        if not scribe.has_room:
            if self._watch is not None:  # the meters go on counting: next to nothing is lost
                active = [(row.user, row.client_id) for row in rows]
                scribe.lose("api", self._watch.pass_over(active, engine.usage.keys))
            if "entity" in families:
                scribe.lose("entity", len(rows))
            scribe.lose("topic", len(topics))
            scribe.lose("capture", len(seen))
            return
        meters, retired = self._read_meters(engine, rows)
        wanted = rows if "entity" in families else ()
        effective_quota = self._effective_quota
        scribe.put(
            Second(
                ts_ms,
                rows=wanted,
                effective_quota=[effective_quota(row.user, row.client_id) for row in wanted],
                meters=meters,
                retired=retired,
                instance=instance_rows.read(engine, len(rows)) if "instance" in families else None,
                topics=topics,
                seen=seen,
                spans_dropped=self._spans_dropped(),
            )
        )

    def _read_meters(
        self, engine: Engine, rows: Sequence[UsageRow]
    ) -> tuple[list[Reading], list[Meter]]:
        watch = self._watch
        if watch is None:
            return [], []
        if self._closing:
            return watch.look_at_all(), []
        return watch.look([(row.user, row.client_id) for row in rows], engine.usage.keys)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write the second that runs and close the files; never longer than that."""
        until = time.monotonic() + timeout_s
        if self._engine is not None and not self._closed:
            self._closing = True
            self._engine.usage.roll(self._engine.now_ms)
        self._closed = True
        self._scribe.close(timeout_s)
        if self._publisher is not None:
            self._publisher.close(max(0.0, until - time.monotonic()))
