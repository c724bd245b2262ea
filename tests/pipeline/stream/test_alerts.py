"""The stateful operator without a JVM: its timers, its state and the ids of its alerts."""

from collections.abc import Iterator

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from pipeline.stream.alerts import ALERT, ThrottleAlerts, alert_row
from pipeline.stream.throttled_window import Crossing

T0_MS = 1_763_683_200_000
NOISY, OTHER = ("pod-1", "alice", "noisy"), ("pod-1", "bob", "other")


class OfThreeColumns(ThrottleAlerts):
    """The tester gives the key inside a tuple, as of one column; Spark gives the tuple of the three."""

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


@pytest.fixture
def tester() -> TwsTester:
    """Return the operator; late rows are left out, as Spark does."""
    return TwsTester(
        OfThreeColumns(), timeMode="EventTime", eventTimeExtractor=lambda row: row.ts_ms
    )


def feed(tester: TwsTester, client: tuple[str, ...], begin: int, end: int) -> list[Row]:
    """Give a client's throttled seconds in batches; the watermark is two minutes behind. Return the alerts."""
    found: list[Row] = []
    for at in range(begin, end, 20):
        seconds = range(at, min(at + 20, end))
        rows = [
            Row(ts_ms=T0_MS + each * 1000, boot="b", blocked_ms=1000, connections=1, quota="q")
            for each in seconds
        ]
        found += tester.test(client, rows)
        assert tester.setWatermark(T0_MS + seconds[-1] * 1000 - 120_000) == []
    return found


def test_an_alert_is_raised_once_and_cleared_once_with_one_id(tester: TwsTester) -> None:
    """Six minutes of throttle, then only the watermark moves."""
    alerts = feed(tester, NOISY, 0, 360)
    for at in range(361, 1000, 7):
        alerts += tester.setWatermark(T0_MS + at * 1000)
    raised, cleared = alerts

    assert (raised["event"], raised["at_ms"] - T0_MS) == ("raised", 241_000)
    assert (cleared["event"], cleared["at_ms"] - T0_MS) == ("cleared", 510_000)
    assert raised["id"] == cleared["id"]
    assert raised["raised_ms"] == cleared["raised_ms"] == raised["at_ms"]
    assert [raised[name] for name in ("instance", "user", "client_id", "quota")] == [*NOISY, "q"]
    assert raised["throttled_share"] > 0.8
    assert cleared["throttled_share"] == 0.5


def test_state_and_timer_of_a_silent_client_are_removed(tester: TwsTester) -> None:
    """One timer at a time; none, and no state, once the last second has left the window."""
    feed(tester, NOISY, 0, 10)
    tester.handle.setGroupingKey(NOISY)
    assert len(list(tester.handle.listTimers())) == 1
    assert tester.peekValueState("window", NOISY) is not None
    tester.setWatermark(T0_MS + 310_000)

    assert list(tester.handle.listTimers()) == []
    assert tester.peekValueState("window", NOISY) is None


def test_a_client_has_one_timer_which_moves_with_its_rows(tester: TwsTester) -> None:
    """A late second does not move it back."""
    for at in (50, 20, 80):
        row = Row(ts_ms=T0_MS + at * 1000, boot="b", blocked_ms=1, connections=1, quota=None)
        tester.test(NOISY, [row])

    assert list(tester.handle.listTimers()) == [T0_MS + 380_000]


def test_the_id_follows_from_the_client_and_the_time() -> None:
    """Equal for the same alert, different for another client or time; the columns are those of ALERT."""
    crossing = Crossing(True, T0_MS, T0_MS, 0.9, None)
    later = crossing._replace(raised_ms=T0_MS + 1)
    ids = [
        alert_row(*each)["id"] for each in ((NOISY, crossing), (OTHER, crossing), (NOISY, later))
    ]

    assert len(set(ids)) == 3
    assert alert_row(NOISY, crossing)["id"] == ids[0]
    assert set(alert_row(NOISY, crossing).asDict()) == set(ALERT.names)
