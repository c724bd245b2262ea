"""The think times of clients, read from a capture."""

import pytest

from pipeline.whatif.script import sessions_of
from pipeline.whatif.simulator import Simulation
from tests.support.pipeline.simulated_clients import (
    bursts,
    capture_rows,
    clients,
    quota_config,
    rate_of,
)
from tests.support.telemetry.usage_rows import START_MS, usage_row

SECONDS = 30
ENDS_MS = START_MS + SECONDS * 1000
QUOTA = {"user": "alice", "request_rate": 50.0}


def row(number: int, now_ms: int, reply_ms: int, **columns: object) -> dict[str, object]:
    given = {
        "seq": number,
        "event": 10 * number,
        "now_ms": now_ms,
        "replied_event": 10 * number + 5,
        "replied_ms": reply_ms,
        "ended_ms": reply_ms,
        "session": 1,
        "exchange": number,
        "charged": True,
    }
    return usage_row("capture", **(given | columns))


def test_a_client_thinks_between_its_reply_and_its_next_request() -> None:
    """And the broker takes from the forwarding, after a hold, to the reply."""
    held = {"released_event": [21], "released_ms": [1300]}
    (session,) = sessions_of([row(1, 1000, 1010), row(2, 1100, 1320, **held)])
    assert [(s.think_ms, s.after, s.broker_ms) for s in session.steps] == [(0, 0, 10), (90, 1, 20)]
    assert (session.start_ms, session.end_ms) == (1000, 1320)


def test_a_request_that_had_waited_for_the_end_of_a_mute_has_no_think_time() -> None:
    """It is asked about when the throttle ends; a later one shows its think time."""
    rows = [
        row(1, 1000, 1010, delay_ms=500),
        row(2, 1500, 1510, reply_delay_ms=100),
        row(3, 1700, 1710),
    ]
    (session,) = sessions_of(rows)
    assert [step.think_ms for step in session.steps] == [0, 0, 190]


def test_pipelined_requests_wait_for_the_replies_that_had_come() -> None:
    """Three at once, then one for each reply; acks=0 has no reply to wait for."""
    rows = [row(1, 1000, 1100), row(2, 1000, 1200), row(3, 1001, 1300), row(4, 1105, 1400)]
    silent = {"outcome": "no_reply", "replied_event": 0, "replied_ms": 0}
    rows += [row(5, 1106, 1106, **silent), row(6, 1107, 1500)]
    (session,) = sessions_of(rows)
    found = [(step.think_ms, step.after, step.silent) for step in session.steps]
    assert [(after, silent) for _, after, silent in found] == [
        (0, False),
        (0, False),
        (0, False),
        (1, False),
        (1, True),
        (1, False),
    ]
    assert [think_ms for think_ms, _, _ in found] == [0, 0, 1, 5, 1, 1]


def test_a_session_follows_one_of_the_same_client_that_has_just_ended() -> None:
    """Not one of another client, and not one that ended long before."""
    rows = [
        row(1, 1000, 1010, session=1, client_id="a"),
        row(2, 1020, 1030, session=2, client_id="a"),
        row(3, 1025, 1035, session=3, client_id="b"),
        row(4, 9000, 9010, session=4, client_id="a"),
    ]
    sessions = sessions_of(rows)
    assert [each.follows for each in sessions] == [None, 0, None, None]
    assert sessions[1].steps[0].think_ms == 10


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_a_recorded_run_is_simulated_exactly(enforcement: str) -> None:
    """Recorded without a quota: the simulation of the capture under a quota passes the same requests at the same times
    as the simulation of the clients themselves. Recorded under the quota its rate is the same.
    """
    sessions = clients(5, bursts(40, 900, 2), 900, broker_ms=3)
    free = Simulation(sessions, quota_config(enforcement), ENDS_MS)
    config = quota_config(enforcement, QUOTA)
    truth = Simulation(sessions, config, ENDS_MS)
    found = Simulation(sessions_of(capture_rows(free, sessions)), config, ENDS_MS)
    times = [[each[2:6] for each in sorted(run.passed)] for run in (truth, found)]
    assert len(times[1]) > 500
    assert times[0][: len(times[1])] == times[1] or sorted(times[1]) == sorted(times[0])
    again = Simulation(sessions_of(capture_rows(truth, sessions)), config, ENDS_MS)
    assert rate_of(again, SECONDS) == pytest.approx(rate_of(truth, SECONDS), rel=0.02)
