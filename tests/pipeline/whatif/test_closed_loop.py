"""Predictions from one-second rows against a simulation of every request with the quota policy itself."""

import random
from statistics import median
from typing import Any

import numpy as np
import pytest

from pipeline.whatif.closed_loop import simulate
from pipeline.whatif.delays import DelayCounts
from pipeline.whatif.script import ClientSession
from pipeline.whatif.simulator import Simulation
from tests.support.pipeline.rows_predicted import demand_from, predicted, rule_of
from tests.support.pipeline.simulated_clients import (
    bursts,
    clients,
    entity_rows,
    poisson,
    quota_config,
    rate_of,
    recorded_end_ms,
)
from tests.support.telemetry.usage_rows import START_MS, usage_row

SECONDS = 60
ENDS_MS = START_MS + SECONDS * 1000
ENFORCEMENTS = ["entity", "channel"]


def run(sessions: list[ClientSession], enforcement: str, limit: float | None = None) -> Simulation:
    quotas = [] if limit is None else [{"user": "alice", "request_rate": limit}]
    return Simulation(sessions, quota_config(enforcement, *quotas), ENDS_MS)


def rate_error(
    sessions: list[ClientSession], enforcement: str, limit: float
) -> tuple[float, float, float]:
    """Return the predicted rate by the true one, less 1, and both shares of delayed requests."""
    rows = entity_rows(run(sessions, enforcement), sessions, SECONDS)
    truth = run(sessions, enforcement, limit)
    found = predicted(rows, limit, enforcement)
    passed = [each for each in truth.passed if each.forwarded_ms < recorded_end_ms(rows)]
    delayed = sum(each.delay_ms > 0 for each in passed) / len(passed)
    return found.accepted / len(passed) - 1, found.throttled_share, delayed


@pytest.mark.parametrize(
    ("enforcement", "connections", "think_ms", "limit"),
    [
        ("entity", 1, 21, 23),
        ("channel", 1, 21, 23),
        ("entity", 50, 1020, 24.7),
        ("channel", 50, 1020, 24.7),
        ("entity", 50, 1, 100),
        pytest.param("channel", 50, 1, 100, marks=pytest.mark.slow),
    ],
)
def test_a_steady_clients_rate_is_predicted_to_five_percent(
    enforcement: str, connections: int, think_ms: float, limit: float
) -> None:
    """From one to fifty connections, far above the quota and just above it; also one that cannot be held to it."""
    sessions = clients(connections, poisson(think_ms, 1), 9000, broker_ms=2)
    error, predicted_share, share = rate_error(sessions, enforcement, limit)
    assert abs(error) < 0.05
    assert abs(predicted_share - share) < 0.3


@pytest.mark.parametrize(
    ("enforcement", "kind", "most"),
    [
        ("entity", "steady", 0.01),
        pytest.param("channel", "steady", 0.01, marks=pytest.mark.slow),
        pytest.param("entity", "bursty", 0.05, marks=pytest.mark.slow),
        ("channel", "bursty", 0.05),
    ],
)
def test_the_median_error_of_many_clients_is_small(
    enforcement: str, kind: str, most: float
) -> None:
    """Fourteen clients of one to fifty connections, limits of 30 to 110 % of what they want."""
    errors = []
    for seed in range(14):
        dice = random.Random(seed)
        connections = dice.choice([1, 2, 5, 10, 20, 50])
        wanted = dice.uniform(20, 100)
        limit = wanted * dice.uniform(0.3, 1.1)
        pause_ms = connections * 1000 / wanted
        size = dice.choice([20, 50, 100])
        think = poisson(pause_ms, seed) if kind == "steady" else bursts(size, pause_ms * size, seed)
        steps = int(wanted * SECONDS / connections * 3) + 400
        sessions = clients(connections, think, steps, broker_ms=2)
        errors.append(abs(rate_error(sessions, enforcement, limit)[0]))
    assert median(errors) < most, errors


@pytest.mark.parametrize(
    ("enforcement", "recorded"), [("entity", "channel"), ("channel", "entity")]
)
def test_a_higher_limit_is_predicted_from_rows_of_a_lower_one(
    enforcement: str, recorded: str
) -> None:
    """The client was blocked most of the time; what it wants shows in the rows."""
    sessions = clients(4, poisson(52, 2), 6000)
    rows = entity_rows(
        run(sessions, recorded, 40.0), sessions, SECONDS, enforcement=recorded, quota_rate=40.0
    )
    truth = rate_of(run(sessions, enforcement, 61.0), SECONDS)
    assert predicted(rows, 61.0, enforcement).accepted / SECONDS == pytest.approx(truth, rel=0.03)


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
def test_a_flood_does_not_take_the_rate_of_a_slow_client_of_the_same_bucket(
    enforcement: str,
) -> None:
    """Each client has its own clock: ten connections without pause, and one that sends once a second."""
    sessions = clients(10, lambda: 3, 9000, client_id="flood", broker_ms=20)
    sessions += clients(1, poisson(1000, 4), 500, client_id="slow", first=11)
    rows = entity_rows(run(sessions, enforcement), sessions, SECONDS)
    truth = run(sessions, enforcement, 50.0)
    slow = [each for each in truth.passed if sessions[each.session].peer.client_id == "slow"]
    outcome = simulate(*rule_of(demand_from(rows, [50.0]), enforcement))
    place = demand_from(rows, [50.0]).member[1]
    assert len(slow) > SECONDS / 2
    assert outcome.accepted[place] == pytest.approx(len(slow), rel=0.3)
    assert outcome.accepted.sum() / SECONDS == pytest.approx(rate_of(truth, SECONDS), rel=0.05)


def second(number: int, charged: int, **columns: object) -> dict[str, Any]:
    return usage_row(
        "entity",
        user="alice",
        client_id="c",
        ts_ms=START_MS + number * 1000,
        requests=charged,
        charged=charged,
        connections=1,
        **columns,
    )


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
def test_below_the_limit_nothing_is_delayed_or_lost(enforcement: str) -> None:
    """Idle seconds have no row; gaps of a second, a minute and a year pass without a delay; so does a burst."""
    rows = [second(n, 5) for n in (0, 1, 3, 63, 64, 31_536_000, 31_536_001)]
    found = predicted(rows, 10.0, enforcement)
    assert (found.accepted, found.throttled_share) == (35, 0)
    assert found.seconds == 65 + 2
    assert predicted([second(0, 20), second(5, 1)], 10.0, enforcement).throttled_share == 0


def test_what_is_not_sent_when_a_session_ends_is_unsent_and_the_next_session_begins_on_time() -> (
    None
):
    """Three hundred requests in a second, and nothing for an hour: as much passes as the session has time for."""
    rows = [second(0, 300), second(1, 1), second(3600, 5)]
    found = predicted(rows, 10.0, "entity")
    assert found.accepted == pytest.approx(20 + 2 * 10 + 5)
    assert found.wanted == 306
    many = predicted([second(n, 1000) for n in range(30)], 7.5, "entity")
    assert many.accepted <= 7.5 * (30 + 2) + 1
    assert found.seconds == 3


def test_a_clock_that_jumps_back_gives_the_same_as_rows_in_order() -> None:
    """Rows are sorted, and rows of one second are added."""
    rows = [second(n, 30) for n in range(20)]
    mixed = [*rows[10:], *rows[:10]]
    halves = [second(n // 2, 15) for n in range(40)]
    whole = predicted(rows, 10.0, "entity")
    assert predicted(mixed, 10.0, "entity") == whole
    assert predicted(halves, 10.0, "entity").accepted == pytest.approx(whole.accepted, rel=0.01)


def test_percentiles_are_those_of_the_delays() -> None:
    """Half of the requests have no delay; the rest 100 ms: to the width of a bin."""
    counts = DelayCounts(2)
    counts.add(np.array([0]), np.array([100.0]), np.array([50.0]))
    requests = np.array([100.0, 10.0])
    assert list(counts.delayed()) == [50, 0]
    assert list(counts.percentile_ms(0.49, requests)) == [0, 0]
    p99 = counts.percentile_ms(0.99, requests)
    assert p99[0] == pytest.approx(100, rel=0.05)
    assert p99[1] == 0
