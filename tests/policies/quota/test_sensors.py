"""Throttle times of a bucket cover real delays only, and expire a minute after the last."""

import pytest

from policies.quota.sensors import ThrottleTime


def test_a_bucket_without_throttles_has_no_throttle_time():
    """The value is None, not 0 (Kafka's NaN)."""
    sensor = ThrottleTime()
    assert (sensor.average_ms(0), sensor.max_ms(0)) == (None, None)


def test_average_and_maximum_cover_recent_throttles():
    """Both samples count."""
    sensor = ThrottleTime()
    for at_ms, delay_ms in ((1000, 100), (2000, 300), (31_000, 50)):
        sensor.record(delay_ms, at_ms)
    assert sensor.average_ms(31_000) == pytest.approx(150)
    assert sensor.max_ms(31_000) == 300


def test_a_minute_after_the_last_throttle_there_is_no_value():
    """A sample expires 60 s after its own last event."""
    sensor = ThrottleTime()
    sensor.record(300, 2000)
    sensor.record(50, 31_000)
    assert (sensor.average_ms(61_999), sensor.max_ms(61_999)) == (175, 300)
    assert (sensor.average_ms(62_000), sensor.max_ms(62_000)) == (50, 50)
    assert sensor.max_ms(90_999) == 50
    assert (sensor.average_ms(91_000), sensor.max_ms(91_000)) == (None, None)


def test_it_never_keeps_more_than_three_samples():
    """Any number of throttles keeps at most three."""
    sensor = ThrottleTime()
    for at_ms in range(0, 3_600_000, 7000):
        sensor.record(1, at_ms)
    assert len(sensor._windows) <= 3
