"""The section: every row as it was found, the goal where it is one."""

from bench.harness.figures import Spread
from bench.in_process import Cost
from bench.telemetry_report import Found, Once, section


def one(us: float) -> Spread:
    return Spread(us, us, us)


FOUND = Found(
    [
        Cost("nothing", one(1.0)),
        Cost("metrics", one(1.25), one(0.25), one(0.26)),
        Cost("too much", one(1.75), one(0.45), one(0.75)),
        Cost("each request throttled, told", one(20), one(9), one(12)),
    ],
    Once(5000, 10_000, 0.5, 4.25, 2.125, 40 << 10),
    {"date": "today"},
    {"each request throttled, told"},
)


def test_a_row_says_whether_the_goal_was_met() -> None:
    """By all that is added, threads included; a yardstick and a throttled request have no goal."""
    lines = section(FOUND).splitlines()

    assert "| nothing | 1.00 |  |  |  |" in lines
    assert "| metrics | 1.25 | 0.25 | 0.26 | met |" in lines
    assert "| too much | 1.75 | 0.45 | 0.75 | **NOT MET** |" in lines
    assert "| each request throttled, told | 20.00 | 9.00 | 12.00 |  |" in lines


def test_what_is_paid_once_and_where_is_told() -> None:
    """Milliseconds, the page's size, the machine."""
    text = section(FOUND)

    assert "5,000 connections" in text
    assert "| collect a page | 4.2 ms |" in text
    assert "| the page | 40 KiB |" in text
    assert "| date | today |" in text
