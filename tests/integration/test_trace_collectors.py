"""Collectors that refuse, hang or are slow: requests do not notice, the end comes in time, every span is counted."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from tests.support.collectors import BlackHole, Collector, exporting, refusing
from tests.support.trails import trail

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from proxy.telemetry.traces.tracer import Tracer

CLOSE_S = 2.0


def use(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, rate: int = 10_000
) -> Tracer:
    """A tracer that exports as these variables say. Not started."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return exporting(rate)


def offer(tracer: Tracer, count: int) -> float:
    """So many requests of two spans; the longest that one call has taken, in seconds."""
    longest = 0.0
    for _ in range(count):
        made = trail()
        began = time.perf_counter()
        tracer.on_trail(made)
        longest = max(longest, time.perf_counter() - began)
    return longest


def closed_in(tracer: Tracer) -> float:
    """How long that took, in seconds."""
    began = time.monotonic()
    tracer.close()
    return time.monotonic() - began


def test_a_collector_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: everything is dropped and counted, and the end comes in time."""
    tracer = use(refusing(), monkeypatch)
    tracer.start()
    offer(tracer, 700)

    assert closed_in(tracer) < CLOSE_S
    assert (tracer.delivered, tracer.dropped) == (0, 1400)


def test_a_collector_that_is_a_black_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and never answers: the loop does not notice, the queue is bounded, the end comes in time."""
    with BlackHole() as hole:
        variables = hole.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}
        tracer = use(variables, monkeypatch, rate=100_000)
        tracer.start()
        offer(tracer, 100)
        assert hole.accepted.wait(20)  # the worker hangs from now on
        longest_s = offer(tracer, 4000)

        assert longest_s < 0.1
        assert len(tracer._queue) <= 2048
        assert closed_in(tracer) < CLOSE_S
        assert (tracer.delivered, tracer.dropped) == (0, 8200)


def test_a_collector_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the first batch for longer than there is time: what it has taken by then is delivered, no more."""
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


def test_a_collector_that_comes_late_gets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow for half a second and then well: nothing is dropped, though the proxy is ending already."""
    with Collector() as slow:
        tracer = use(slow.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}, monkeypatch)
        slow.gate.clear()
        tracer.start()
        offer(tracer, 600)
        threading.Timer(0.5, slow.gate.set).start()

        assert closed_in(tracer) < CLOSE_S
        assert (tracer.delivered, tracer.dropped) == (1200, 0)
        assert len(slow.spans) == 1200


def test_a_collector_that_is_gone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers 400 and later takes: what it refused is lost and counted, what came later is there."""
    with Collector() as ill:
        tracer = use(ill.variables | {"OTEL_BSP_SCHEDULE_DELAY": "1"}, monkeypatch)
        refused = threading.Event()
        ill.status, ill.on_refusal = 400, refused.set
        tracer.start()
        offer(tracer, 10)
        assert refused.wait(20)
        while tracer.dropped < 20:
            time.sleep(0.01)
        ill.status = 200
        offer(tracer, 10)
        tracer.close()

        assert (tracer.delivered, tracer.dropped) == (20, 20)
        assert len(ill.spans) == 20
