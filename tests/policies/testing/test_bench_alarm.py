"""An alarm of a bench rings once, unless it is given up."""

from policies.testing.bench_alarm import BenchAlarm


def test_it_rings_once_and_not_when_it_is_given_up():
    """Either way it is over then."""
    rang: list[int] = []
    alarm, given_up = BenchAlarm(rang.append), BenchAlarm(rang.append)
    given_up.cancel()
    for each in (alarm, alarm, given_up):
        each.ring(7)
    assert rang == [7]
    assert alarm.cancelled
    assert given_up.cancelled
