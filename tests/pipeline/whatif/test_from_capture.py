"""Predictions from a capture, request by request."""

import pytest

from pipeline.whatif.capture import compare, lost_events
from pipeline.whatif.from_capture import config_of, predict_capture
from pipeline.whatif.predict import Candidate
from pipeline.whatif.results import RESULT
from pipeline.whatif.simulator import Simulation
from policies.quota.config import QuotaLine
from tests.support.pipeline.simulated_clients import (
    PRODUCE,
    capture_rows,
    clients,
    poisson,
    quota_config,
)
from tests.support.telemetry.usage_rows import START_MS

SECONDS = 20
ENDS_MS = START_MS + SECONDS * 1000


def line(rate: float) -> QuotaLine:
    return QuotaLine(user="alice", request_rate=rate)


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_rates_and_delays_are_those_of_the_policy(enforcement: str) -> None:
    """For each factor, and what the client wants without a quota."""
    sessions = clients(4, poisson(40, 1), 700, broker_ms=2)
    free = Simulation(sessions, quota_config(enforcement), ENDS_MS)
    candidate = Candidate([line(30)], enforcement, factors=(1.0, 5.0))
    tables = list(predict_capture(capture_rows(free, sessions), candidate))
    assert [each.schema for each in tables] == [RESULT, RESULT]
    (one,), (five,) = (each.to_pylist() for each in tables)
    truth = Simulation(sessions, config_of(candidate), ENDS_MS)
    assert one["requests"] == pytest.approx(len(truth.passed), rel=0.01)
    assert (one["limit"], one["quota_entity"], one["connections"]) == (30, "user=alice", 4)
    assert one["throttled_share"] > 0.1
    assert one["delay_p99_ms"] > 0
    assert one["wanted_per_s"] * one["seconds"] == pytest.approx(len(free.passed), rel=0.01)
    assert five["accepted_per_s"] == five["wanted_per_s"]


def test_requests_without_reply_escape_the_channels_rule_and_are_named() -> None:
    """acks=0: nothing judges their number."""
    sessions = clients(1, lambda: 20, 400, api_key=PRODUCE)
    for step in sessions[0].steps:
        step.request.acks, step.silent, step.after = 0, True, 0
    rows = capture_rows(Simulation(sessions, quota_config("entity"), ENDS_MS), sessions)
    for row in rows:
        row.update(outcome="no_reply", replied_event=0, replied_ms=0)
    (found,) = next(predict_capture(rows, Candidate([line(10)], "channel"))).to_pylist()
    assert found["flag"] == "acks_0"
    assert found["reason"].startswith("100 % of its requests have acks=0")


@pytest.mark.parametrize(("steps", "flag"), [(1, "reconnects"), (900, "unenforceable")])
def test_who_escapes_the_channels_rule_is_named(steps: int, flag: str) -> None:
    """By new connections, or by many of them."""
    sessions = clients(100 if steps == 1 else 40, lambda: 3, steps)
    if steps == 1:
        for place, session in enumerate(sessions):
            session.start_ms = START_MS + place * 100
    rows = capture_rows(Simulation(sessions, quota_config("channel"), ENDS_MS), sessions)
    (found,) = next(predict_capture(rows, Candidate([line(0.5)], "channel"))).to_pylist()
    assert found["flag"] == flag


def test_lost_rows_are_counted_and_a_wrong_quota_shows() -> None:
    """A number that is missing, and delays of another quota."""
    sessions = clients(2, poisson(10, 1), 200)
    free = Simulation(sessions, quota_config("channel"), ENDS_MS)
    rows = capture_rows(free, sessions)
    for number, row in enumerate(rows):
        row["event"], row["replied_event"] = 2 * number + 1, 2 * number + 2
    assert not compare(rows, quota_config("channel")).different
    assert compare(rows, config_of(Candidate([line(1)], "channel"))).different
    assert lost_events(rows) == 0
    assert list(predict_capture([], Candidate([line(1)]))) == []
    assert lost_events(rows[:5] + rows[6:]) == 2
