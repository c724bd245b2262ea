"""Chooses the requests that are traced and queues them for the thread that makes their spans.

Rules:
- The loop does a few additions and one append, and may wake the thread, which does the rest.
- The rate of spans is limited by a token bucket on the engine's time, with bursts of twice the rate. If the queue is
  full the oldest request is dropped. Dropped spans are counted.
- `on_trace` sets `RequestTrace.trace_id` of a traced request, so observers that need it are called after this one.
- A throttle that lasts longer than the reply is traced only if its request was.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from proxy.core.observer import Observer
from proxy.telemetry.traces.attributes import KnownNames
from proxy.telemetry.traces.batch_processor import (
    DELAY_MS,
    MAX_BATCH_SPANS,
    Job,
    SpanBatchProcessor,
)
from proxy.telemetry.traces.spans import is_muted_after, span_count

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.telemetry.traces.batch_processor import SpanExporter

MAX_QUEUED_SPANS = 2048
"""Spans of the requests in the queue."""
MAX_KEPT_BYTES = 1024
"""The part of a Produce that is kept for the name of its topic."""
BURST_SECONDS = 2
CLOSE_TIMEOUT_S = 1.7
"""A collector may delay the end of the process by two seconds at most."""


class Tracer(Observer):
    """Traces requests. `exporters.make_tracer` makes one from the settings."""

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        max_spans_per_second: int,
        max_queued_spans: int = MAX_QUEUED_SPANS,
        delay_ms: int = DELAY_MS,
        max_batch_spans: int = MAX_BATCH_SPANS,
    ) -> None:
        self._queue: deque[Job] = deque()
        self._max_queued_spans = max_queued_spans
        self._worker = SpanBatchProcessor(
            self._queue, exporter, delay_ms=delay_ms, max_batch_spans=max_batch_spans
        )
        self._new_id = random.Random().getrandbits  # noqa: S311 - ids, not secrets
        self._queued = 0  # all spans that were ever put into the queue
        self._overflowed = 0  # those that a full queue has lost
        self._over_rate = 0
        self._closed = False
        self._filled_us = 0  # when the bucket was last filled
        self._tokens = 0.0
        self.set_rate(max_spans_per_second)
        self._tokens = self._burst

    def set_rate(self, max_spans_per_second: int) -> None:
        """Set the rate of spans."""
        self._per_us = max_spans_per_second / 1_000_000
        self._burst = float(max_spans_per_second * BURST_SECONDS)

    def attach(self, engine: Engine) -> None:
        """Set the engine, whose addresses and topic names appear in spans."""
        self._worker.known = KnownNames(engine.topology.address_of, engine.rewrites.topics)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Deliver the queued spans and end. Blocks for `timeout_s` at most."""
        if not self._closed:
            self._closed = True
            self._worker.close(timeout_s)

    @property
    def dropped(self) -> int:
        """Return how many spans were dropped; after `close` that includes those that are not delivered yet."""
        worker = self._worker
        if self._closed:
            return self._over_rate + self._queued - worker.delivered
        return self._over_rate + self._overflowed + worker.refused

    @property
    def delivered(self) -> int:
        """Return how many spans a collector or a file has accepted."""
        return self._worker.delivered

    @property
    def waiting(self) -> int:
        """Return how many spans are queued or on their way to the exporter."""
        worker = self._worker
        return self._queued - self._overflowed - worker.delivered - worker.refused

    # -- on the loop -----------------------------------------------------------------------------

    def on_trace(self, trace: RequestTrace) -> None:
        """See Observer. Traces the request if the rate allows it."""
        spans = span_count(trace)
        if self._try_take(spans, trace.ended_us):
            # the lower half is a span's id, and not 0
            trace.trace_id = f"{self._new_id(128) | 1:032x}"
            kept = trace.kept
            if kept is not None and (
                not isinstance(kept, bytes | bytearray) or len(kept) > MAX_KEPT_BYTES
            ):
                trace.kept = None  # thousands of partitions: too much to keep for a name
            self._put(Job(trace, spans))

    def on_unmuted(self, trace: RequestTrace, now_us: int) -> None:
        """See Observer. Traces a throttle that lasted longer than the reply."""
        if trace.trace_id and is_muted_after(trace, now_us) and self._try_take(1, now_us):
            self._put(Job(trace, 1, now_us))

    def _try_take(self, spans: int, now_us: int) -> bool:
        """Take tokens from the bucket. One request may overdraw it, so that a request with many spans can be traced."""
        tokens = self._tokens + (now_us - self._filled_us) * self._per_us
        self._filled_us = now_us
        self._tokens = tokens = min(tokens, self._burst)
        if self._closed or tokens < min(spans, self._burst):
            self._over_rate += spans
            return False
        self._tokens = tokens - spans
        return True

    def _put(self, job: Job) -> None:
        queue = self._queue
        if len(queue) >= self._max_queued_spans:
            try:
                oldest = queue.popleft()
            except IndexError:  # the thread has taken it
                pass
            else:
                self._overflowed += oldest.spans
        self._queued += job.spans
        queue.append(job)
        self._worker.call()
