"""The simulation of closed-loop clients with the policy itself: the figures of the documentation, and its own rules."""

from collections import Counter
from itertools import pairwise

import pytest

from pipeline.whatif.simulator import Simulation
from tests.support.pipeline.simulated_clients import clients, quota_config
from tests.support.telemetry.usage_rows import START_MS

TEN = {"user": "alice", "request_rate": 10.0}


def passed_by_second(enforcement: str, connections: int, seconds: int) -> list[int]:
    sessions = clients(connections, lambda: 0, 400, broker_ms=1)
    for session in sessions:
        session.start_ms = START_MS
    config = quota_config(enforcement, TEN)
    simulation = Simulation(sessions, config, START_MS + seconds * 1000)
    counts = Counter((each.forwarded_ms - START_MS) // 1000 for each in simulation.passed)
    return [counts[second] for second in range(seconds)]


def test_the_rates_are_those_of_the_documented_example() -> None:
    """A limit of 10 requests/s: a burst of 30 and 10 in each second, or Kafka's sawtooth."""
    assert passed_by_second("entity", 1, 8) == [30, *[10] * 7]
    assert passed_by_second("entity", 50, 8) == [30, *[10] * 7]
    assert passed_by_second("channel", 1, 13) == [110, *[1] * 11, 100]
    assert passed_by_second("channel", 50, 8)[1:] == [50] * 7


def test_requests_of_a_connection_pass_in_order_and_are_answered_in_order() -> None:
    """Also when they are held; the reply never precedes the forwarding."""
    sessions = clients(6, lambda: 0, 60, broker_ms=25)
    simulation = Simulation(sessions, quota_config("entity", TEN), START_MS + 60_000)
    for place in range(6):
        mine = [each for each in simulation.passed if each.session == place]
        assert [each.step for each in mine] == list(range(len(mine)))
        assert all(
            before.forwarded_ms <= after.asked_ms and before.replied_ms <= after.replied_ms
            for before, after in pairwise(mine)
        )
        assert all(each.asked_ms <= each.forwarded_ms <= each.replied_ms for each in mine)


def test_blocked_time_is_that_of_the_delays() -> None:
    """Holds and throttles of a connection do not overlap, and add up to the delays."""
    sessions = clients(3, lambda: 0, 60, broker_ms=2)
    simulation = Simulation(sessions, quota_config("entity", TEN), START_MS + 20_000)
    blocked = sum(each.until_ms - each.since_ms for each in simulation.blocked)
    delays = sum(each.delay_ms for each in simulation.passed)
    assert delays > 10_000
    assert blocked == pytest.approx(delays, rel=0.05)  # the last replies are still to come


def test_a_client_reconnects_when_its_last_connection_has_ended() -> None:
    """Under `entity` each new connection is held; under `channel` it is not muted, and escapes."""
    passed = {}
    for enforcement in ("entity", "channel"):
        sessions = clients(1500, lambda: 0, 1)
        for place, session in enumerate(sessions[1:]):
            session.follows = place
            session.steps[0].think_ms = 2
        sessions[0].start_ms = START_MS
        simulation = Simulation(sessions, quota_config(enforcement, TEN), START_MS + 10_000)
        passed[enforcement] = len(simulation.passed)
    assert passed["entity"] == pytest.approx(10 * (10 + 2), abs=3)
    assert passed["channel"] > 1000
