"""Hears how requests fared and passes them on to be told as spans.

Rules:
- On the loop: a few additions and one append. Everything else is the worker's, in a thread of its own.
- At most so many spans a second (a token bucket on the engine's time; twice as many at once); of the queue the
  oldest goes first. What goes is counted, in spans.
- A request that gets spans has `RequestTrace.trace_id` from `on_trail` on: an observer that names it is told
  after this one.
- A throttle that goes on after the reply is told only where its request was.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from proxy.core.observer import Observer
from proxy.telemetry.traces.attributes import Known
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
"""Requests that wait for the worker."""
MAX_KEPT_BYTES = 1024
"""Of a Produce, for the name of its topic."""
BURST_SECONDS = 2
CLOSE_TIMEOUT_S = 1.7
"""No collector may hold up the end by more than two seconds."""


class Tracer(Observer):
    """See the module. `choice.make_tracer` makes one of the settings."""

    def __init__(
        self,
        sink: SpanExporter,
        *,
        max_spans_per_second: int,
        max_queued_spans: int = MAX_QUEUED_SPANS,
        delay_ms: int = DELAY_MS,
        max_batch_spans: int = MAX_BATCH_SPANS,
    ) -> None:
        self._queue: deque[Job] = deque()
        self._max_queued_spans = max_queued_spans
        self._worker = SpanBatchProcessor(
            self._queue, sink, delay_ms=delay_ms, max_batch_spans=max_batch_spans
        )
        self._new_id = random.Random().getrandbits  # noqa: S311 - names for traces, not secrets
        self._dropped = 0  # by the loop
        self._closed = False
        self._filled_us = 0  # when the bucket was looked at
        self._tokens = 0.0
        self.set_rate(max_spans_per_second)
        self._tokens = self._burst

    def set_rate(self, max_spans_per_second: int) -> None:
        """From now on."""
        self._per_us = max_spans_per_second / 1_000_000
        self._burst = float(max_spans_per_second * BURST_SECONDS)

    def attach(self, engine: Engine) -> None:
        """What brokers have told the engine may be said in spans."""
        self._worker.known = Known(engine.topology.address_of, engine.topics)

    def start(self) -> None:
        """Begin to deliver."""
        self._worker.start()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Deliver what is there and end, after `timeout_s` at the latest. Blocks that long."""
        if not self._closed:
            self._closed = True
            self._worker.close(timeout_s)

    @property
    def dropped(self) -> int:
        """Spans that nobody will ever see."""
        return self._dropped + self._worker.dropped

    @property
    def delivered(self) -> int:
        """Spans that a collector or a file has taken."""
        return self._worker.delivered

    # -- on the loop -----------------------------------------------------------------------------

    def on_trail(self, trail: RequestTrace) -> None:
        """Give it a trace, if there is room for one."""
        spans = span_count(trail)
        if self._may(spans, trail.ended_us):
            # the lower half is a span's id, and not 0
            trail.trace_id = f"{self._new_id(128) | 1:032x}"
            kept = trail.kept
            if kept is not None and (
                not isinstance(kept, bytes | bytearray) or len(kept) > MAX_KEPT_BYTES
            ):
                trail.kept = None  # thousands of partitions: too much to hold on to for a name
            self._put(Job(trail, spans))

    def on_unmuted(self, trail: RequestTrace, now_us: int) -> None:
        """The client had to be quiet until now."""
        if trail.trace_id and is_muted_after(trail, now_us) and self._may(1, now_us):
            self._put(Job(trail, 1, now_us))

    def _may(self, spans: int, now_us: int) -> bool:
        """Take so many tokens; one request may overdraw, so that a small bucket is no wall to a long story."""
        tokens = self._tokens + (now_us - self._filled_us) * self._per_us
        self._filled_us = now_us
        self._tokens = tokens = min(tokens, self._burst)
        if self._closed or tokens < min(spans, self._burst):
            self._dropped += spans
            return False
        self._tokens = tokens - spans
        return True

    def _put(self, job: Job) -> None:
        queue = self._queue
        if len(queue) >= self._max_queued_spans:
            try:
                oldest = queue.popleft()
            except IndexError:  # the worker was quicker
                pass
            else:
                self._dropped += oldest.spans
        queue.append(job)
