"""Delivery by the tracer's thread: every span is delivered or counted as dropped, for any behaviour of the exporter."""

import json
import threading

import pytest
import structlog

from proxy.telemetry import log
from proxy.telemetry.traces.tracer import Tracer
from tests.support.telemetry.request_traces import Kept, trace


def offered(sink, requests, *, delay_ms=60_000, **options):
    """Return a started tracer with so many requests of two spans."""
    tracing = Tracer(sink, max_spans_per_second=1000, delay_ms=delay_ms, **options)
    for _ in range(requests):
        tracing.on_trace(trace())
    tracing.start()
    return tracing


class Stuck(Kept):
    """Takes nothing until it is told to stop waiting or the test releases it."""

    def __init__(self, *, heeds):
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()
        self.heeds = heeds
        self.ended = threading.Event()

    def send(self, spans):
        self.entered.set()
        self.released.wait(60)
        return "gave up"

    def stop_waiting(self):
        if self.heeds:
            self.released.set()

    def close(self):
        self.ended.set()


def test_spans_are_delivered_after_the_delay():
    """No `close` is necessary, and another thread than the event loop's does it."""
    came = threading.Event()
    threads = []

    class Told(Kept):
        def send(self, spans):
            threads.append(threading.current_thread())
            came.set()
            return super().send(spans)

    sink = Told()
    tracing = offered(sink, 1, delay_ms=1)

    assert came.wait(60)
    tracing.close()
    assert len(sink.spans) == 2
    assert threading.current_thread() not in threads


def test_batches_are_bounded():
    """A batch has the maximum of spans, or those of one larger request; at the end the exporter is closed."""
    sink = Kept()
    offered(sink, 7, max_batch_spans=5).close(60)

    assert [len(batch) for batch in sink.batches] == [6, 6, 2]
    assert sink.closed


def test_spans_are_dropped_when_the_exporter_raises():
    """The thread delivers the next batch."""

    class Broken(Kept):
        def send(self, spans):
            if not self.batches:
                self.batches.append([])
                raise RuntimeError
            return super().send(spans)

    tracing = offered(Broken(), 2, max_batch_spans=2)
    tracing.close(60)

    assert (tracing.delivered, tracing.dropped) == (2, 2)


@pytest.mark.parametrize("heeds", [True, False])
def test_an_exporter_that_is_stuck_does_not_delay_the_end(heeds):
    """Its batch and the queue are counted as dropped, once, even if the exporter returns later."""
    sink = Stuck(heeds=heeds)
    tracing = offered(sink, 4, delay_ms=1, max_batch_spans=2)
    assert sink.entered.wait(60)
    tracing.close(0.4)

    assert sink.released.is_set() is heeds, "the exporter is told to stop waiting"
    assert (tracing.delivered, tracing.dropped) == (0, 8)
    sink.released.set()
    assert sink.ended.wait(60)
    assert (tracing.delivered, tracing.dropped) == (0, 8)


def test_a_tracer_that_never_started_drops_everything():
    """The proxy may fail at its start."""
    tracing = Tracer(Kept(), max_spans_per_second=1000)
    tracing.on_trace(trace())
    tracing.close()

    assert tracing.dropped == 2


def test_a_failing_exporter_is_logged_when_it_begins_and_ends(capsys):
    """Three failures and two successes are two lines, and spans are counted when they are dropped."""
    log.configure("info", "json")
    answers = ["ConnectionError"] * 3 + [""] * 2
    healed = threading.Event()

    class Heals(Kept):
        def send(self, spans):
            answer = answers.pop(0)
            if not answer:
                healed.set()
            return answer

    tracing = offered(Heals(), 5, delay_ms=1, max_batch_spans=2)
    assert healed.wait(60)
    assert tracing.dropped == 6
    tracing.close(60)
    structlog.reset_defaults()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("traces_not_exported", "warning"),
        ("traces_exported_again", "info"),
    ]
    assert lines[0]["reason"] == "ConnectionError"
    assert lines[1]["dropped"] == 6
    assert (tracing.delivered, tracing.dropped) == (4, 6)
