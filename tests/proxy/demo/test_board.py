"""Board: rows are computed from Ticks alone."""

from __future__ import annotations

import pytest

from proxy.demo.board import Standing
from proxy.demo.figures import Latencies
from proxy.demo.messages import Tick


def buckets(latency_ms: float, count: int) -> dict[int, int]:
    """Return a histogram of equal latencies."""
    latencies = Latencies()
    for _ in range(count):
        latencies.add(latency_ms)
    return latencies.take()


def test_the_recent_row_looks_back_two_seconds() -> None:
    """Rate and latency are those of the last four ticks; older ones are forgotten."""
    standing = Standing("noisy", "librdkafka")
    for place in range(10):
        slow = 100.0 if place < 5 else 1.0
        tick = Tick(requests_per_s=place, acked=50 * place, latency=buckets(slow, 50))
        standing.take(tick, place / 2)

    row = standing.now()

    assert row.records_per_s == pytest.approx(100)
    assert row.requests_per_s == 9
    assert row.acked == 450
    assert row.p99_ms == pytest.approx(1, rel=0.06)


def test_the_whole_row_leaves_out_idle_time() -> None:
    """Before a client's first latency and after its last one, no time counts."""
    standing = Standing("reader-1", "librdkafka")
    ticks = [(0.0, 0), (10.0, 0), (20.0, 100), (21.0, 200), (22.0, 300)]
    for now_s, consumed in ticks:
        standing.take(Tick(3.0, 0, consumed, buckets(2, 1) if consumed else {}), now_s)
    standing.take(Tick(0.0, 0, 300, {}), 90.0)

    row = standing.whole()

    assert row.records_per_s == pytest.approx(100)
    assert row.requests_per_s == pytest.approx(3)
    assert row.consumed == 300


def test_a_silent_client_shows_nothing() -> None:
    """Without a tick there is no latency and every count is zero."""
    standing = Standing("polite", "kafka-python")

    assert standing.now() == ("polite", "kafka-python", 0, 0, 0, 0, None, None)
    assert standing.whole() == standing.now()
