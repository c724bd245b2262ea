"""Alerts of a client, batch by batch, with the window that is kept between them; and the folders of the windows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.stream.alerts import ALERT, Windows, alert_of, judge, judged, seconds_of
from pipeline.stream.throttled_window import Crossing
from tests.support.telemetry.usage_rows import frame, numbered, usage_row

T0_MS = 1_763_683_200_000
NOISY, OTHER = ("pod-1", "alice", "noisy"), ("pod-1", "bob", "other")
LATE_MS = 120_000


def second(at: int) -> dict[str, object]:
    """Return a second in which the client was muted all the time."""
    return {
        "ts_ms": T0_MS + at * 1000,
        "boot": "b",
        "blocked_ms": 1000,
        "connections": 1,
        "quota": "q",
    }


def test_an_alert_is_raised_by_its_rows_and_cleared_by_the_watermark() -> None:
    """Six minutes of throttle in batches of 20 s, then other clients' rows only; in the end nothing is kept."""
    window, found = None, []
    for at in range(0, 1000, 20):
        rows = [second(each) for each in range(at, at + 20)] if at < 360 else []
        crossings, window = judge(window, rows, T0_MS + (at + 19) * 1000 - LATE_MS, 300)
        found += [(each.raised, (each.at_ms - T0_MS) // 1000, at) for each in crossings]

    assert found == [(True, 241, 240), (False, 510, 620)]
    assert window is None


def test_the_id_follows_from_the_client_and_the_time() -> None:
    """Equal for the same alert, also when it is cleared, different for another client or time."""
    raised = Crossing(True, T0_MS, T0_MS, 0.9, None)
    cleared = raised._replace(raised=False, at_ms=T0_MS + 1, share=0.5)
    later = raised._replace(raised_ms=T0_MS + 1)
    ids = [alert_of(*each)["id"] for each in ((NOISY, raised), (OTHER, raised), (NOISY, later))]

    assert len(set(ids)) == 3
    assert alert_of(NOISY, cleared)["id"] == ids[0]
    assert list(alert_of(NOISY, raised)) == ALERT.names


def test_each_client_is_judged_by_its_own_rows_and_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of two clients one completes its alert in the second batch; one without a throttle has no window."""
    windows = tmp_path / "windows"
    found = []
    for number, seconds in enumerate((range(240), range(240, 250))):
        rows = [
            usage_row(
                "entity", ts_ms=T0_MS + at * 1000, client_id=name, connections=1,
                blocked_ms=1000 * (name == "noisy" or (name == "other" and number == 1)),
            )
            for at in seconds
            for name in ("noisy", "other", "free")
        ]  # fmt: skip
        kept = Windows(spark, str(windows))
        assert kept.batch == number - 1
        batch = seconds_of(frame(spark, "entity", numbered(rows)))
        both = judged(batch, kept.read(), 0, 300).persist()
        found += [
            (number, row["client_id"], row["event"], row["at_ms"] - T0_MS)
            for row in both.where("window is null").collect()
        ]
        kept.write(both.where("window is not null"), number)

    assert found == [(1, "noisy", "raised", 241_000)]
    kept = Windows(spark, str(windows))
    assert {row["client_id"] for row in kept.read().collect()} == {"noisy", "other"}
    assert [each.name for each in windows.iterdir() if each.is_dir()] == ["1"]


@pytest.mark.parametrize("is_written", [True, False])
def test_windows_that_are_not_written_to_their_end_do_not_count(
    spark: SparkSession, tmp_path: Path, *, is_written: bool
) -> None:
    """The job was killed while it wrote them."""
    Windows(spark, str(tmp_path)).write(Windows(spark, str(tmp_path)).read(), 3)
    if not is_written:
        (tmp_path / "3" / "_SUCCESS").unlink()

    assert Windows(spark, str(tmp_path)).batch == (3 if is_written else -1)
