"""Collectors that refuse, hang or are slow: requests are not delayed, shutdown is in time, every span is counted."""

import threading
import time
from collections.abc import Mapping

import pytest

from proxy.telemetry.traces.tracer import CLOSE_TIMEOUT_S, Tracer
from tests.support.telemetry.collectors import BlackHole, Collector, exporting, refusing
from tests.support.telemetry.request_traces import trace

CLOSE_S = 60.0
"""Sluice waits for two seconds; a shutdown that waited for its collector would wait for ever."""


def use(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, rate: int = 10_000
) -> Tracer:
    """Return a tracer with these variables. Not started."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return exporting(rate)


def offer(tracer: Tracer, count: int) -> None:
    """Offer so many requests of two spans."""
    for _ in range(count):
        tracer.on_trace(trace())


def closed_in(tracer: Tracer, timeout_s: float = CLOSE_TIMEOUT_S) -> float:
    """Close it; return how long that took, in seconds."""
    began = time.monotonic()
    tracer.close(timeout_s)
    return time.monotonic() - began


def test_spans_for_a_refusing_collector_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No process listens at its port; the shutdown is in time."""
    tracer = use(refusing(), monkeypatch)
    tracer.start()
    offer(tracer, 700)

    assert closed_in(tracer) < CLOSE_S
    assert (tracer.delivered, tracer.dropped) == (0, 1400)


def test_a_collector_that_never_answers_does_not_delay_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It accepts connections, and its worker hangs meanwhile; the queue is bounded, and the shutdown is in time."""
    with BlackHole() as hole:
        variables = hole.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}
        tracer = use(variables, monkeypatch, rate=100_000)
        tracer.start()
        offer(tracer, 100)
        assert hole.accepted.wait(120)  # the worker hangs from now on
        offer(tracer, 4000)  # a call that waited for the worker would not return

        assert tracer.waiting <= 2 * 2048 + 512  # two spans a request, and a batch that hangs
        assert closed_in(tracer) < CLOSE_S
        assert (tracer.delivered, tracer.dropped) == (0, 8200)


def test_a_slow_collector_gets_what_fits_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the first batch for too long: the spans taken by then are delivered, no more."""
    with Collector() as slow:
        variables = slow.variables | {
            "OTEL_BSP_SCHEDULE_DELAY": "1",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "100",
        }
        tracer = use(variables, monkeypatch)
        tracer.start()
        offer(tracer, 50)
        slow.wait_for(100)
        slow.gate.clear()
        offer(tracer, 300)

        assert closed_in(tracer) < CLOSE_S
        assert tracer.delivered + tracer.dropped == 700
        assert tracer.delivered == 100


def test_a_collector_that_is_slow_at_first_gets_every_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slow for half a second: no span is dropped, though the proxy is shutting down."""
    with Collector() as slow:
        tracer = use(slow.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}, monkeypatch)
        slow.gate.clear()
        tracer.start()
        offer(tracer, 600)
        threading.Timer(0.5, slow.gate.set).start()
        closed_in(tracer, CLOSE_S)  # the machine may be slow, too

        assert (tracer.delivered, tracer.dropped) == (1200, 0)
        assert len(slow.spans) == 1200


def test_spans_refused_for_a_while_are_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers 400 and accepts later: later spans are delivered."""
    with Collector() as ill:
        tracer = use(ill.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}, monkeypatch)
        refused = threading.Event()
        ill.status, ill.on_refusal = 400, refused.set
        tracer.start()
        offer(tracer, 10)
        assert refused.wait(120)
        while tracer.dropped < 20:
            time.sleep(0.01)
        ill.status = 200
        offer(tracer, 10)
        tracer.close()

        assert (tracer.delivered, tracer.dropped) == (20, 20)
        assert len(ill.spans) == 20
