"""The thread that makes spans from traced requests and hands them to an exporter in batches.

Rules:
- The loop appends to a deque. The first request after a batch also wakes the thread, which waits for more of them
  before it takes all: the loop pays for one append, and the thread for nothing while no request is traced.
- It is not the SDK's BatchSpanProcessor: that runs the SDK and a system call per span on the loop, logs each span that
  a full queue drops without counting it, waits 30 seconds at its end, and needs the SDK for a trace file.
- Each count has one writer, the thread. What is not delivered at the end is dropped (see `Tracer.dropped`).
- A failure is logged when it begins and when it ends, not per batch.
- The thread is a daemon, so a collector that hangs does not keep the process alive.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog

from proxy.telemetry.traces.spans import NOTHING_KNOWN, mute_span, spans_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from proxy.core.stats.request_trace import RequestTrace
    from proxy.telemetry.traces.attributes import KnownNames
    from proxy.telemetry.traces.spans import Span

DELAY_MS = 1000
MAX_BATCH_SPANS = 512
STOP_S = 0.3
"""The part of the time to close that is reserved to interrupt an exporter."""


class Job(NamedTuple):
    """A request that makes `spans` spans; only the mute after it if `unmuted_us` is not 0."""

    trace: RequestTrace
    spans: int
    unmuted_us: int = 0


class SpanExporter(Protocol):
    """Delivers spans. The thread of the batch processor calls everything but `stop_waiting`."""

    def send(self, spans: Sequence[Span]) -> str:
        """Deliver all spans. Return an empty string, or the reason of the failure without secrets."""

    def stop_waiting(self) -> None:
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
        self.delivered = 0
        self.refused = 0
        """Spans that the exporter did not deliver."""
        self._queue = queue
        self._exporter = exporter
        self._delay_s = delay_ms / 1000
        self._max_batch_spans = max_batch_spans
        self._new_id = random.Random().getrandbits  # noqa: S311 - ids, not secrets
        self._called = threading.Event()
        self._closing = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="sluice-traces", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self) -> None:
        """Let the thread take what is queued, `delay_ms` from now. The loop calls this after each append."""
        if not self._called.is_set():
            self._called.set()

    def close(self, timeout_s: float) -> None:
        """Deliver the queued spans within `timeout_s`. Call it once."""
        self._closing.set()
        self._called.set()
        if self._thread.is_alive():
            ends_s = time.monotonic() + timeout_s
            self._thread.join(max(0.0, timeout_s - STOP_S))
        if self._thread.is_alive():
            self._exporter.stop_waiting()
            self._thread.join(max(0.0, ends_s - time.monotonic()))

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            self._called.wait()
            closing = self._closing.wait(self._delay_s)
            self._called.clear()
            while jobs := self._take():
                self._deliver(jobs)
        self._exporter.close()

    def _take(self) -> list[Job]:
        jobs: list[Job] = []
        spans = 0
        with suppress(IndexError):  # the queue is empty
            while spans < self._max_batch_spans:
                jobs.append(self._queue.popleft())
                spans += jobs[-1].spans
        return jobs

    def _deliver(self, jobs: list[Job]) -> None:
        try:
            why = self._exporter.send([span for job in jobs for span in self._spans(job)])
        except Exception as error:  # noqa: BLE001 - a bug here must not end the thread
            why = f"a bug: {type(error).__name__}"
        spans = sum(job.spans for job in jobs)
        if why:
            self.refused += spans
        else:
            self.delivered += spans
        self._log_fault(why)

    def _spans(self, job: Job) -> list[Span]:
        if job.unmuted_us:
            return [mute_span(job.trace, job.unmuted_us, lambda: self._new_id(128) | 1)]
        return spans_of(job.trace, lambda: self._new_id(64) | 1, self.known)

    def _log_fault(self, why: str) -> None:
        """Log a failure when it begins and when it ends."""
        before, self._trouble = self._trouble, why
        if why and not before:
            structlog.get_logger().warning("traces_not_exported", reason=why)
        elif before and not why:
            structlog.get_logger().info("traces_exported_again", dropped=self.refused)
