"""The batch processor: every span is delivered or counted as dropped, for any behaviour of the exporter."""

import json
import threading
from collections import deque

import pytest
import structlog

from proxy.telemetry import log
from proxy.telemetry.traces.attributes import KnownNames
from proxy.telemetry.traces.batch_processor import Job, SpanBatchProcessor
from tests.support.telemetry.request_traces import Kept, trace, waits


def job(trace_id=5, **options):
    """Return a job of two spans."""
    made = trace(**options)
    made.trace_id = f"{trace_id:032x}"
    return Job(made, 2)


def work(sink, jobs=(), **options):
    """Return a started processor with these jobs."""
    worker = SpanBatchProcessor(deque(jobs), sink, **{"delay_ms": 1, **options})
    worker.start()
    return worker


class Stuck(Kept):
    """Takes nothing until it is told to hurry or the test releases it."""

    def __init__(self, *, heeds=True):
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()
        self.heeds = heeds
        self.left = threading.Event()

    def send(self, spans):
        self.entered.set()
        self.released.wait(20)
        self.left.set()
        return "gave up"

    def hurry(self):
        if self.heeds:
            self.released.set()


def test_spans_in_the_queue_are_delivered_at_close():
    """`close` gives all of them to the exporter, and closes it."""
    sink = Kept()
    worker = work(sink, [job(n) for n in range(1, 6)], delay_ms=60_000)
    worker.close(5)

    assert [span.name for span in sink.spans] == ["Produce", "upstream"] * 5
    assert (worker.delivered, worker.dropped, sink.closed) == (10, 0, True)


def test_spans_are_delivered_after_the_delay():
    """No `close` is necessary."""
    came = threading.Event()

    class Told(Kept):
        def send(self, spans):
            came.set()
            return super().send(spans)

    sink = Told()
    worker = work(sink, [job()])

    assert came.wait(20)
    worker.close(5)
    assert len(sink.spans) == 2


def test_batches_are_bounded():
    """A batch has the maximum of spans, or those of one larger request."""
    sink = Kept()
    work(sink, [job(n) for n in range(1, 8)], max_batch_spans=5, delay_ms=60_000).close(5)

    assert [len(batch) for batch in sink.batches] == [6, 6, 2]


def test_a_mute_is_one_span():
    """It is a job of a throttle that lasted longer than its request."""
    sink = Kept()
    made = job()
    work(sink, [Job(made.trace, 1, made.trace.ended_us + 9)]).close(5)

    assert [span.name for span in sink.spans] == ["mute"]
    assert sink.spans[0].trace_id not in {0, 5}


def test_addresses_of_brokers_are_used():
    """They are set after the start, because the engine is made later."""
    sink = Kept()
    worker = SpanBatchProcessor(deque([job()]), sink, delay_ms=60_000)
    worker.known = KnownNames({2: ("b2", 9092)}.get)
    worker.start()
    worker.close(5)

    assert sink.spans[1].attributes["server.address"] == "b2"


def test_spans_that_the_exporter_refuses_are_dropped():
    """All of them are counted as dropped."""
    worker = work(Kept("refused"), [job(n) for n in range(1, 4)], delay_ms=60_000)
    worker.close(5)

    assert (worker.delivered, worker.dropped) == (0, 6)


def test_spans_are_dropped_when_the_exporter_raises():
    """The thread delivers the next batch."""

    class Broken(Kept):
        def send(self, spans):
            if not self.batches:
                self.batches.append([])
                raise RuntimeError
            return super().send(spans)

    sink = Broken()
    worker = work(sink, [job(1), job(2)], max_batch_spans=2, delay_ms=60_000)
    worker.close(5)

    assert (worker.delivered, worker.dropped) == (2, 2)


@pytest.mark.parametrize("heeds", [True, False])
def test_an_exporter_that_is_stuck_does_not_delay_the_end(heeds):
    """Its batch and the queue are counted as dropped, once, even if the exporter returns later."""
    sink = Stuck(heeds=heeds)
    queue = deque([job(n) for n in range(1, 5)])
    worker = SpanBatchProcessor(queue, sink, delay_ms=1, max_batch_spans=2)
    worker.start()
    assert sink.entered.wait(20)
    worker.close(0.4)

    assert sink.released.is_set() is heeds, "the exporter is told to hurry"
    assert (worker.delivered, worker.dropped) == (0, 8)
    sink.released.set()
    assert sink.left.wait(20)
    thread = worker._thread
    assert thread is not None
    thread.join(20)
    assert (worker.delivered, worker.dropped) == (0, 8)


def test_a_job_that_cannot_be_converted_drops_its_batch():
    """An internal error does not end all traces."""
    sink = Kept()
    broken = Job(trace(waits(("throttle", 1))), 3)  # it has no trace id
    worker = work(sink, [broken, job()], max_batch_spans=3, delay_ms=60_000)
    worker.close(5)

    assert (worker.delivered, worker.dropped) == (2, 3)


def test_a_processor_that_never_started_drops_everything():
    """The proxy may fail at its start."""
    worker = SpanBatchProcessor(deque([job()]), Kept())
    worker.close(5)

    assert worker.dropped == 2


def test_a_failing_exporter_is_logged_when_it_begins_and_ends(capsys):
    """Three failures and two successes are two lines."""
    log.configure("info", "json")
    sink = Kept("ConnectionError")

    class Heals(Kept):
        def send(self, spans):
            sink.batches.append(list(spans))
            return "ConnectionError" if len(sink.batches) < 4 else ""

    worker = work(Heals(), [job(n) for n in range(1, 6)], max_batch_spans=2, delay_ms=60_000)
    worker.close(5)
    structlog.reset_defaults()

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("traces_not_exported", "warning"),
        ("traces_exported_again", "info"),
    ]
    assert lines[0]["reason"] == "ConnectionError"
    assert lines[1]["dropped"] == 6
