"""The need of a name is the smallest limit of what one bucket would count, over all instances."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.recommend.needs import ALL, BUSIEST, MAX_RAISE, REST, Level, Question, needs_of
from pipeline.whatif.client_rows import pack_rows
from policies.quota.entity import CONSUMER_BYTE_RATE, KEYS, PRODUCER_BYTE_RATE, REQUEST_RATE

START_S = 1_763_683_200
FIT_S = 70
LIMITS = (REQUEST_RATE, PRODUCER_BYTE_RATE)
Sent = dict[tuple[str, str, str], dict[int, int]]
"""Instance, user and client id to second and requests."""
EXACT = 0.011


def question(level: Level = "user", limits: tuple[str, ...] = LIMITS) -> Question:
    """No request may be delayed, so that a need can be computed by hand; two seconds' worth may pass at once."""
    return Question(level, limits, "entity", 2.0, 0.0, START_S + FIT_S)


def found(
    sent: Sent, asked: Question | None = None, **recorded: object
) -> dict[tuple[str, str, str | None, str | None], dict[str, Any]]:
    """Return the needs by limit, role and names. A request has a thousand bytes; nobody fetches."""
    asked = asked or question()
    columns: dict[str, list[object]] = {name: [] for name in asked.columns()}
    for (instance, user, client_id), seconds in sent.items():
        for second, n in seconds.items():
            row: dict[str, object] = {"instance": instance, "boot": "b1", "user": user}
            row |= {"client_id": client_id, "ts_ms": (START_S + second) * 1000, "charged": n}
            row |= {"connections": 1, "blocked_ms": 0, "enforcement": None, "quota_rate": 0.0}
            row |= {"charged_bytes": n * 1000, "response_bytes": n} | recorded
            for name, column in columns.items():
                column.append(row[name])
    packed = pa.Table.from_batches([pack_rows(pa.table(columns))])
    for name, use in (("produces", 1), ("fetches", 0)):
        packed = packed.append_column(name, pa.array([use] * packed.num_rows))
    rows = needs_of(packed, asked).to_pylist()
    return {(row["limit"], row["role"], row["user"], row["client_id"]): row for row in rows}


def steady(rate: int) -> dict[int, int]:
    return dict.fromkeys(range(100), rate)


SENT: Sent = {
    ("pod-1", "alice", "busy"): steady(10),
    ("pod-2", "alice", "busy"): steady(30),
    ("pod-1", "alice", "quiet"): dict.fromkeys(range(0, 100, 9), 1),
    ("pod-1", "bob", "busy"): {95: 40},
}


def test_a_need_is_that_of_the_busiest_instance_and_of_all_client_ids_together() -> None:
    """After t seconds at a rate r no request waits if the limit is r * t / (t + 2)."""
    alice = found(SENT)[REQUEST_RATE, ALL, "alice", None]
    assert alice["value"] == pytest.approx(30 * 100 / 102, rel=EXACT)
    assert alice["fitted"] == pytest.approx(30 * FIT_S / (FIT_S + 2), rel=EXACT)
    assert (alice["seconds"], alice["instances"], alice["client_ids"]) == (200, 2, 2)
    assert alice["max"] == 30
    assert alice["mean"] == (40 * 100 + 12) / 200
    assert alice["skew"] == pytest.approx(3000 * 2 / 4012)


def test_a_target_lets_some_requests_be_delayed() -> None:
    """Half of the requests come in a tenth of the time: with a target of 60 % the limit is that of the rest."""
    sent: Sent = {("pod-1", "a", "x"): {s: 100 if s % 20 < 2 else 10 for s in range(200)}}
    strict, lax = (
        found(sent, question()._replace(target=target))[REQUEST_RATE, ALL, "a", None]["value"]
        for target in (0.0, 0.6)
    )
    assert strict > 40
    assert lax < 25


def test_the_enforcement_channel_measures_over_eleven_seconds() -> None:
    """A second of 110 requests is 11 requests/s there, and 110 by three seconds under `entity`."""
    sent: Sent = {("pod-1", "a", "x"): {50: 110}}
    rates = {
        enforcement: found(sent, question()._replace(enforcement=enforcement))[  # type: ignore[arg-type] # one of two
            REQUEST_RATE, ALL, "a", None
        ]["value"]
        for enforcement in ("entity", "channel")
    }
    assert rates["entity"] == pytest.approx(110 / 3, rel=EXACT)
    assert rates["channel"] == pytest.approx(10, rel=0.011)


def test_the_rest_of_a_user_are_all_client_ids_but_the_busiest() -> None:
    """Counted together if they are several, beside a user whose rest is one; a client id that sends nothing is none."""
    sent: Sent = {
        **SENT,
        ("pod-1", "carol", "busy"): steady(20),
        ("pod-1", "carol", "quiet"): steady(2),
        ("pod-1", "carol", "more"): steady(3),
        ("pod-1", "dave", "busy"): steady(20),
        ("pod-1", "dave", "idle"): dict.fromkeys(range(3), 0),
    }
    needs = found(sent, question(limits=(REQUEST_RATE,)))
    rests = {user: need for (_, role, user, _), need in needs.items() if role == REST}
    assert rests.keys() == {"alice", "carol"}
    assert needs[REQUEST_RATE, BUSIEST, "alice", "busy"]["max"] == 30
    assert (ALL, "bob", None) in {key[1:] for key in needs}
    assert (REST, "bob", None) not in {key[1:] for key in needs}
    assert rests["alice"]["max"] == 1
    assert rests["carol"]["value"] == pytest.approx(5 * 100 / 102, rel=EXACT)
    assert (rests["carol"]["client_ids"], rests["carol"]["seconds"]) == (2, 100)


def test_a_name_that_was_not_there_early_has_no_fitted_need() -> None:
    """The back-test leaves its rule out."""
    bob = found(SENT)[REQUEST_RATE, ALL, "bob", None]
    assert bob["fitted"] is None
    assert bob["value"] == pytest.approx(40 / 3, rel=EXACT)


def test_each_level_sums_up_what_its_buckets_count() -> None:
    """A client id over all users; or each pair by itself."""
    by_client = found(SENT, question("client_id", (REQUEST_RATE,)))
    assert {client_id for *_, client_id in by_client} == {"busy", "quiet"}
    assert by_client[REQUEST_RATE, ALL, None, "busy"]["max"] == 50
    pairs = found(SENT, question("both", (REQUEST_RATE,)))
    assert {(user, client_id) for _, _, user, client_id in pairs} == {
        ("alice", "busy"),
        ("alice", "quiet"),
        ("bob", "busy"),
    }


def test_bytes_are_needed_by_clients_that_produce_or_fetch() -> None:
    """Clients that never fetch need no consumer's rate, however large their replies are."""
    needs = found(SENT, question(limits=KEYS))
    assert needs[PRODUCER_BYTE_RATE, ALL, "bob", None]["value"] == pytest.approx(
        40_000 / 3, rel=EXACT
    )
    assert not [key for key in needs if key[0] == CONSUMER_BYTE_RATE]


@pytest.mark.parametrize("blocked_ms", [0, 500, 1000])
def test_a_throttled_client_needs_more_than_it_sent_and_at_most_twice_as_much(
    blocked_ms: int,
) -> None:
    """One that was blocked half of the time wants twice as much; one that was all the time may want anything."""
    needs = found(
        {("pod-1", "a", "x"): steady(10)},
        question(limits=(REQUEST_RATE,)),
        enforcement="channel",
        quota_rate=10.0,
        blocked_ms=blocked_ms,
    )
    times = needs[REQUEST_RATE, ALL, "a", None]["value"] / (10 * 100 / 102)
    assert times == pytest.approx(1.0 if not blocked_ms else MAX_RAISE, rel=EXACT)
    assert not np.isnan(times)
