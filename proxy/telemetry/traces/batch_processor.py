"""The thread that makes spans from traced requests and hands them to an exporter in batches.

Rules:
- The loop appends to a deque, and the thread wakes on its own schedule: the loop pays for one append.
- Every span is counted once, as delivered or as dropped. A span is dropped if the exporter refuses it, or if it is not
  delivered when the time to close is over.
- A failure is logged when it begins and when it ends, not per batch.
- The thread is a daemon, so a collector that hangs does not keep the process alive.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog

from proxy.telemetry.traces.spans import NOTHING_KNOWN, SPAN_ID_MASK, mute_span, spans_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from proxy.core.stats.request_trace import RequestTrace
    from proxy.telemetry.traces.attributes import KnownNames
    from proxy.telemetry.traces.spans import Span

DELAY_MS = 1000
MAX_BATCH_SPANS = 512
HURRY_S = 0.3
"""The part of the time to close that is reserved to interrupt an exporter."""


class Job(NamedTuple):
    """A request that makes `spans` spans; only the mute after it if `unmuted_us` is not 0."""

    trace: RequestTrace
    spans: int
    unmuted_us: int = 0


class SpanExporter(Protocol):
    """Delivers spans. The thread of the batch processor calls everything but `hurry`."""

    def send(self, spans: Sequence[Span]) -> str:
        """Deliver all spans. Return an empty string, or the reason of the failure without secrets."""

    def hurry(self) -> None:
        """Stop waiting for the collector now. Another thread calls this."""

    def close(self) -> None:
        """Release what the exporter holds; no span follows."""


class SpanBatchProcessor:
    """Makes spans of queued jobs in a thread and delivers them to `exporter` in batches."""

    def __init__(
        self,
        queue: deque[Job],
        exporter: SpanExporter,
        *,
        delay_ms: int = DELAY_MS,
        max_batch_spans: int = MAX_BATCH_SPANS,
    ) -> None:
        self.known: KnownNames = NOTHING_KNOWN
        self._queue = queue
        self._exporter = exporter
        self._delay_s = delay_ms / 1000
        self._max_batch_spans = max_batch_spans
        self._ids = random.Random()  # noqa: S311 - ids, not secrets
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()  # of what follows
        self._abandoned = False
        self._in_hand = 0
        self._delivered = 0
        self._dropped = 0
        self._trouble = ""

    @property
    def delivered(self) -> int:
        """Return how many spans the exporter has delivered."""
        return self._delivered

    @property
    def dropped(self) -> int:
        """Return how many spans were lost here; after `close` that includes those left in the queue."""
        with self._lock:
            left = sum(job.spans for job in tuple(self._queue)) if self._abandoned else 0
            return self._dropped + left

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="sluice-traces", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Deliver the queued spans within `timeout_s`; further ones are dropped. Call it once."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            ends_s = time.monotonic() + timeout_s
            thread.join(max(0.0, timeout_s - HURRY_S))
            if thread.is_alive():
                self._exporter.hurry()
                thread.join(max(0.0, ends_s - time.monotonic()))
        with self._lock:
            self._abandoned = True
            self._dropped += self._in_hand
            self._in_hand = 0

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            closing = self._closing.wait(self._delay_s)
            while jobs := self._take():
                self._deliver(jobs)
        self._exporter.close()

    def _take(self) -> list[Job]:
        jobs: list[Job] = []
        with self._lock:
            while not self._abandoned and self._in_hand < self._max_batch_spans:
                try:
                    job = self._queue.popleft()
                except IndexError:  # empty
                    break
                jobs.append(job)
                self._in_hand += job.spans
        return jobs

    def _deliver(self, jobs: list[Job]) -> None:
        spans: list[Span] = []
        why = ""
        try:
            for job in jobs:
                spans += self._spans(job)
            why = self._exporter.send(spans)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the thread
            why = f"a bug: {type(error).__name__}"
        with self._lock:
            if self._abandoned:
                return  # it is counted already
            if why:
                self._dropped += self._in_hand
            else:
                self._delivered += self._in_hand
            self._in_hand = 0
        self._log_fault(why)

    def _spans(self, job: Job) -> list[Span]:
        if job.unmuted_us:
            return [mute_span(job.trace, job.unmuted_us, self._new_trace_id)]
        return spans_of(job.trace, self._new_span_id, self.known)

    def _new_trace_id(self) -> int:
        return self._ids.getrandbits(128) | 1

    def _new_span_id(self) -> int:
        return self._ids.getrandbits(64) & SPAN_ID_MASK | 1

    def _log_fault(self, why: str) -> None:
        """Log a failure when it begins and when it ends. Runs in the thread."""
        before, self._trouble = self._trouble, why
        if why and not before:
            structlog.get_logger().warning("traces_not_exported", reason=why)
        elif before and not why:
            structlog.get_logger().info("traces_exported_again", dropped=self._dropped)
