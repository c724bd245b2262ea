"""Slow steps and hooks are logged once a minute, if a client can have noticed them, and with a cause."""

import pytest

from proxy.telemetry import log
from proxy.telemetry.slow_work import EVERY_MS

CPU = {"ms": 0.0}


@pytest.fixture
def make(lines, monkeypatch):
    """Return what makes the observer; in the test, whose standard error is its own."""
    CPU["ms"] = 0.0
    monkeypatch.setattr(log, "_cpu_ms", lambda: CPU["ms"])
    return lines


def test_a_slow_step_a_second_on_a_healthy_node_is_no_line(make):
    """Nine milliseconds of a second are less than a hundredth."""
    written = make()
    for _ in range(300):
        written.observer.on_slow_step(9, ["limits"])
        written.observer.on_policy_slow("limits", "on_request", "Produce", 9_000)
        written.advance(1000)
    written.observer.close(0)
    assert written.take() == []


def test_many_slow_steps_are_one_line_a_minute(make):
    """With their number, their time, the longest, and the share of the minute."""
    written = make()
    for _ in range(120):
        written.observer.on_slow_step(30, ["limits"])
        written.advance(1000)
    first, second = written.take()
    assert first["event"] == second["event"] == "slow_step"
    told = {name: first[name] for name in ("times", "took_ms", "longest_ms", "share_percent")}
    assert told == {"times": 60, "took_ms": 1800, "longest_ms": 30, "share_percent": 3.0}


def test_one_long_step_is_a_line(make):
    """A client notices a tenth of a second."""
    written = make()
    written.observer.on_slow_step(100, ["limits"])
    written.advance(EVERY_MS)
    (line,) = written.take()
    assert (line["times"], line["longest_ms"]) == (1, 100)


def test_the_cause_is_the_policy_that_took_most_of_the_time(make):
    """Its own line names the API of its longest call."""
    written = make()
    for _ in range(10):
        written.observer.on_slow_step(90, ["limits", "mine"])
        written.observer.on_policy_slow("mine", "on_request", "Fetch", 60_000)
        written.observer.on_policy_slow("limits", "on_request", "Fetch", 6_000)
    written.observer.on_policy_slow("mine", "on_request", "Produce", 70_000)
    written.advance(EVERY_MS)
    hook, step = written.take()
    assert (hook["event"], hook["policy"], hook["hook"]) == ("policy_slow", "mine", "on_request")
    assert (hook["api"], hook["times"], hook["longest_ms"]) == ("Produce", 11, 70)
    assert step["cause"] == "policy mine, on_request"


def test_the_cause_is_the_machine_if_the_thread_had_no_cpu(make):
    """CPU time used before the last second, or before another slow step, explains nothing."""
    written = make()
    CPU["ms"] = 5_000
    written.observer.on_second(0, [])
    for _ in range(2):
        CPU["ms"] += 100
        written.observer.on_slow_step(300, ["limits"])
    written.advance(EVERY_MS)
    (line,) = written.take()
    assert line["cause"].startswith("no CPU for 400 ms")


def test_a_cause_that_was_not_seen_is_called_that(make):
    """The line names the policies that were asked."""
    written = make()
    CPU["ms"] += 500
    written.observer.on_slow_step(500, ["limits", "mine"])
    written.advance(EVERY_MS)
    (line,) = written.take()
    assert line["cause"].endswith("policies: limits, mine")


def test_the_last_minute_is_judged_at_the_end(make):
    """And not once more by its timer."""
    written = make()
    written.observer.on_slow_step(800, ["limits"])
    written.observer.close(0)
    written.advance(EVERY_MS)
    assert [line["event"] for line in written.take()] == ["slow_step"]
