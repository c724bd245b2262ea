"""The needs of names are percentiles of what one bucket would have counted, over all instances."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.recommend.needs import ALL, BUSIEST, REST, Level, Question, needs_of
from pipeline.recommend.packed import COLUMNS, demand_rows
from pipeline.whatif.client_rows import pack_rows
from policies.quota.entity import CONSUMER_BYTE_RATE, KEYS, PRODUCER_BYTE_RATE, REQUEST_RATE

START_S = 1_763_683_200
FIT_S = 70
LIMITS = (REQUEST_RATE, PRODUCER_BYTE_RATE)
Sent = dict[tuple[str, str, str], dict[int, int]]
"""Instance, user and client id to second and requests."""


def table_of(sent: Sent, fetches: int = 1) -> pa.Table:
    """Return the packed demand; a request has a thousand bytes, the reply to all of a second one byte."""
    rows = [
        (instance, "b1", user, client_id, (START_S + second) * 1000, n, n * 1000, 1, 1, 0)
        for (instance, user, client_id), seconds in sent.items()
        for second, n in seconds.items()
    ]
    columns = [*map(list, zip(*rows, strict=True)), [None] * len(rows), [0.0] * len(rows)]
    recorded = pa.table([pa.array(column) for column in columns], list(COLUMNS))
    clients = pa.Table.from_batches([pack_rows(recorded)])
    packed = pa.Table.from_batches([demand_rows(clients)])
    ones = pa.array([1] * packed.num_rows)
    return packed.append_column("produces", ones).append_column(
        "fetches", pa.array([fetches] * packed.num_rows)
    )


def found(
    sent: Sent, level: Level = "user", percentile: float = 90, limits: tuple[str, ...] = LIMITS
) -> dict[tuple[str, str, str | None, str | None], dict[str, Any]]:
    question = Question(level, limits, percentile, START_S + FIT_S)
    rows = needs_of(table_of(sent, fetches=0), question).to_pylist()
    return {(row["limit"], row["role"], row["user"], row["client_id"]): row for row in rows}


def windows(seconds: dict[int, int]) -> dict[int, float]:
    return {
        at: sum(n for then, n in seconds.items() if at - 10 <= then <= at) / 10.5 for at in seconds
    }


def nearest_rank(values: list[float], percentile: float) -> float:
    return sorted(values)[max(int(np.ceil(len(values) * percentile / 100 - 1e-9)), 1) - 1]


BUSY = {second: 5 + second % 7 for second in range(100)}
QUIET = dict.fromkeys(range(0, 100, 9), 1)
SENT: Sent = {
    ("pod-1", "alice", "busy"): BUSY,
    ("pod-2", "alice", "busy"): {second: 3 * n for second, n in BUSY.items()},
    ("pod-1", "alice", "quiet"): QUIET,
    ("pod-1", "bob", "busy"): {95: 40},
}


def test_a_need_is_the_percentile_of_all_windows_of_all_instances() -> None:
    """Of a user all its client ids are counted together, instance by instance; a value occurred."""
    both = {s: BUSY.get(s, 0) + QUIET.get(s, 0) for s in BUSY}
    one, two = windows(both), windows(SENT["pod-2", "alice", "busy"])
    rates = [*one.values(), *two.values()]
    alice = found(SENT)[REQUEST_RATE, ALL, "alice", None]
    assert alice["value"] == nearest_rank(rates, 90)
    assert [alice[name] for name in ("p50", "p99", "p999", "max")] == [
        nearest_rank(rates, p) for p in (50, 99, 99.9, 100)
    ]
    early = [rate for seconds in (one, two) for at, rate in seconds.items() if at < FIT_S]
    assert alice["fitted"] == nearest_rank(early, 90)
    assert (alice["windows"], alice["instances"], alice["client_ids"]) == (200, 2, 2)
    totals = sum(both.values()), 3 * sum(BUSY.values())
    assert alice["total"] == sum(totals)
    assert alice["skew"] == totals[1] * 2 / sum(totals)


def test_the_rest_of_a_user_are_all_client_ids_but_the_busiest() -> None:
    """Counted together if they are several, beside a user whose rest is one; a client id that sends nothing is none."""
    more = dict.fromkeys(range(0, 100, 5), 2)
    idle = dict.fromkeys(range(3), 0)
    sent: Sent = {
        **SENT,
        ("pod-1", "carol", "busy"): BUSY,
        ("pod-1", "carol", "quiet"): QUIET,
        ("pod-1", "carol", "more"): more,
        ("pod-1", "dave", "busy"): BUSY,
        ("pod-1", "dave", "idle"): idle,
    }
    needs = found(sent, limits=(REQUEST_RATE,))
    rests = {user: need for (_, role, user, _), need in needs.items() if role == REST}
    assert rests.keys() == {"alice", "carol"}
    busiest = needs[REQUEST_RATE, BUSIEST, "alice", "busy"]
    assert busiest["max"] == max(windows(SENT["pod-2", "alice", "busy"]).values())
    assert (ALL, "bob", None) in {key[1:] for key in needs}
    assert (REST, "bob", None) not in {key[1:] for key in needs}
    assert rests["alice"]["max"] == max(windows(QUIET).values())
    both = {s: QUIET.get(s, 0) + more.get(s, 0) for s in QUIET.keys() | more.keys()}
    assert rests["carol"]["max"] == max(windows(both).values())
    assert (rests["carol"]["client_ids"], rests["carol"]["windows"]) == (2, len(both))


def test_a_name_that_was_not_there_early_has_no_fitted_need() -> None:
    """The back-test leaves its rule out."""
    bob = found(SENT)[REQUEST_RATE, ALL, "bob", None]
    assert bob["fitted"] is None
    assert bob["value"] == 40 / 10.5


def test_each_level_sums_up_what_its_buckets_count() -> None:
    """A client id over all users; or each pair by itself."""
    by_client = found(SENT, "client_id", 100, (REQUEST_RATE,))
    assert {client_id for *_, client_id in by_client} == {"busy", "quiet"}
    both = {s: BUSY.get(s, 0) + (40 if s == 95 else 0) for s in BUSY}
    most = max(*windows(both).values(), *windows(SENT["pod-2", "alice", "busy"]).values())
    assert by_client[REQUEST_RATE, ALL, None, "busy"]["value"] == most
    pairs = found(SENT, "both", 100, (REQUEST_RATE,))
    assert {(user, client_id) for _, _, user, client_id in pairs} == {
        ("alice", "busy"),
        ("alice", "quiet"),
        ("bob", "busy"),
    }


def test_bytes_are_needed_by_clients_that_produce_or_fetch() -> None:
    """Clients that never fetch need no consumer's rate, however large their replies are."""
    needs = found(SENT, limits=KEYS)
    assert needs[PRODUCER_BYTE_RATE, ALL, "bob", None]["value"] == 40_000 / 10.5
    assert not [key for key in needs if key[0] == CONSUMER_BYTE_RATE]
