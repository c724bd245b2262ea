"""The history: a point a second for fifteen minutes, without gaps."""

import pytest

from proxy.core.stats.usage import UsageRow
from proxy.telemetry.history import POINTS, History, Point
from tests.support.core.sessions import make_engine

START_MS = 1_000_000_000


def row(requests: int, throttled: int = 0) -> UsageRow:
    return UsageRow(0, "alice", "", requests, requests, 0, 0, 0, 0, 0, 1, throttled, 0, 0, 0, 0)


@pytest.fixture
def history() -> History:
    made = History()
    made.attach(make_engine(now_ms=START_MS), lambda: 1.5)
    return made


def test_the_history_has_a_point_for_each_second_since_the_first(history):
    """It sums all clients; the core reports no empty second, and a chart must not draw a line across them."""
    history.on_second(START_MS, [row(3, 1), row(4)])
    assert history.points(START_MS + 1000) == [Point(START_MS + 1000, 7.0, 1.0, 0, 0, 0, 1.5)]

    history.on_second(START_MS + 3000, [row(4)])
    points = history.points(START_MS + 6400)
    assert [point.ts_ms - START_MS for point in points] == [1000, 2000, 3000, 4000, 5000]
    assert [point.requests_per_s for point in points] == [7.0, 0.0, 0.0, 4.0, 0.0]


def test_the_history_has_at_most_fifteen_minutes(history):
    """Gaps in the reports do not change its length."""
    for second in range(POINTS + 10):
        history.on_second(START_MS + 1000 * second, [row(1)])
    now_ms = START_MS + 1000 * (POINTS + 10)
    points = history.points(now_ms)
    assert len(points) == POINTS
    assert points[-1].ts_ms == now_ms
    later = history.points(now_ms + 3_600_000)
    assert {point.requests_per_s for point in later} == {0.0}
    assert len(later) <= POINTS


def test_the_latest_point_is_the_second_that_ended(history):
    """A point may be a second late; after that the second counts as empty."""
    assert history.latest(START_MS).requests_per_s == 0.0
    history.on_second(START_MS, [row(3)])
    assert history.latest(START_MS + 1100).requests_per_s == 3.0
    assert history.latest(START_MS + 2100).requests_per_s == 3.0
    assert history.latest(START_MS + 3100).requests_per_s == 0.0


def test_the_history_starts_with_the_first_point(history):
    """There are no points from before the start."""
    assert history.points(START_MS + 5000) == []
