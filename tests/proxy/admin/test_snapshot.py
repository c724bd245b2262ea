"""A snapshot of all connections: the counts, and the rows that are listed."""

import trio

from policies.api import Hold, QuotaViolation, Throttle
from proxy.admin import snapshot
from proxy.admin.snapshot import (
    AGES_MS,
    LISTED,
    OLDEST,
    SLICE,
    Snapshot,
    connection_of,
    take_snapshot,
)
from tests.support.core.holding import Holding
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, produce9

HOLD = Hold(10_000, "a place at the broker")
THROTTLE = Hold(10_000, "x", throttles=True, why=QuotaViolation("alice", "request_rate", 2, 1))


def seen(*wires: Wire, listed: int = LISTED, opened_ms: dict[int, int] | None = None) -> Snapshot:
    found = Snapshot(wires[0].engine.now_ms, opened_ms or {}, listed)
    for wire in wires:
        found.add(wire.session)
    return found


def test_an_idle_connection_is_only_counted():
    """It is counted by node; it is not muted and has nothing in flight."""
    engine = make_engine()
    found = seen(Wire(engine), Wire(engine, 2), Wire(engine, 2))
    assert found.total == 3
    assert found.by_node == {None: 1, 2: 2}
    assert not found.muted
    assert not found.waiting
    assert sum(age.count for age in found.ages()) == 0


def test_requests_that_wait_at_a_broker_are_listed_with_their_age():
    """These are fetches and acks=all produces; their age starts when they are forwarded."""
    wire = Wire(make_engine(), 1)
    wire.client(fetch(1))
    wire.advance(300)
    wire.client(produce9(2))
    wire.advance(100)
    found = seen(wire)
    assert found.waiting == {"fetch": 1, "produce": 1}
    assert [(row.kind, row.api, row.age_ms, row.waits_for) for row in found.oldest()] == [
        ("fetch", "Fetch", 400, "records, or its time"),
        ("produce", "Produce", 100, "the broker"),
    ]
    assert {age.le_ms: age.count for age in found.ages() if age.count} == {500: 1, 100: 1}


def test_held_requests_are_listed_with_the_key_that_they_wait_for():
    """A hold that is not a throttle mutes its client and counts for no quota."""
    engine = make_engine([Holding(HOLD)])
    wire = Wire(engine).client(f.heartbeat(1))
    wire.advance(9000)
    found = seen(wire)
    (row,) = found.oldest()
    assert (row.kind, row.api, row.age_ms) == ("hold", "Heartbeat", 9000)
    assert row.waits_for == "a place at the broker"
    assert found.muted["HELD"] == 1
    assert not found.throttled


def test_a_quotas_hold_and_a_deferred_mute_count_as_throttled():
    """Both make the client wait for its quota, though a deferred mute waits until the client sends something."""
    wire = Wire(make_engine([Holding(THROTTLE)])).client(f.heartbeat(1))
    found = seen(wire)
    assert found.throttled == {("ANONYMOUS", "tests"): 1}
    assert found.oldest()[0].waits_for == "its quota"

    policy = Recorder(lambda request: Throttle(400 * (request.correlation_id > 1)))
    engine = make_engine([policy])
    engine.try_expect_early = lambda _: True
    wire = Wire(engine).client(f.beat(1)).client(f.beat(2))
    assert wire.session.client.muted == 0
    found = seen(wire)
    assert found.throttled == {("ANONYMOUS", "tests"): 1}
    assert found.muted["THROTTLED"] == 1
    wire.advance(400)
    assert not seen(wire).throttled


def test_the_requests_that_have_waited_longest_are_listed():
    """The list is bounded and sorted by waiting time."""
    engine = make_engine()
    wires = []
    for _ in range(OLDEST + 5):
        wires.append(Wire(engine, 1).client(fetch(1)))
        wires[0].advance(10)
    ages = [row.age_ms for row in seen(*wires).oldest()]
    assert ages == sorted(ages, reverse=True)
    assert len(ages) == OLDEST
    assert ages[0] == 10 * (OLDEST + 5)


def test_busy_connections_are_listed_before_others():
    """Muted connections come first, then those with most in flight; the list itself is sorted by id."""
    engine = make_engine([Holding(HOLD)])
    held, busy = Wire(engine), Wire(engine)
    held.client(f.heartbeat(1))
    idle = [Wire(engine) for _ in range(5)]
    busy.client(f.heartbeat(1) + f.heartbeat(2))
    found = seen(*idle, busy, held, listed=2)
    assert [row.id for row in found.connections()] == [
        held.session.peer.session_id,
        busy.session.peer.session_id,
    ]
    assert found.total == 7


def test_a_row_has_the_bytes_that_are_held_for_a_connection():
    """It has the unsent bytes of both sides, unparsed bytes, mute reasons and age."""
    engine = make_engine([Holding(HOLD)])
    wire = Wire(engine, 3).client(f.heartbeat(1))
    wire.session.client.put(b"12345")
    row = connection_of(wire.session, 90_500, {wire.session.peer.session_id: 500})
    assert row.client == "10.0.0.9:40000"
    assert (row.user, row.client_id, row.node, row.in_flight) == ("ANONYMOUS", "tests", 3, 0)
    assert (row.principal_source, row.client_tls, row.broker_tls) == ("none", "", "")
    assert row.client_unsent_bytes == 5
    assert row.carry_bytes == len(f.heartbeat(1))
    assert "HELD" in row.muted
    assert row.age_s == 90
    assert connection_of(wire.session, 0, {}).age_s is None


async def test_other_tasks_run_between_slices_of_sessions(monkeypatch):
    """The event loop never waits for a whole snapshot."""
    turns = []

    async def turn() -> None:
        turns.append(1)

    monkeypatch.setattr(snapshot.trio.lowlevel, "checkpoint", turn)
    engine = make_engine()
    wires = [Wire(engine) for _ in range(3 * SLICE)]
    found = await take_snapshot(engine, {})
    assert found.total == len(wires)
    assert len(turns) == 3


async def test_sessions_that_end_during_a_snapshot_are_left_out():
    """A session may end while other tasks run between two slices."""
    engine = make_engine()
    wires = [Wire(engine) for _ in range(2 * SLICE)]
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            for wire in wires:
                wire.session.client_lost(wire.now_ms)

        nursery.start_soon(end)
        found = await take_snapshot(engine, {})
    assert found.total < len(wires)


def test_the_histogram_of_ages_has_no_upper_bound():
    """Its last bucket counts every age."""
    assert AGES_MS[-1] is None
    wire = Wire(make_engine(), 1).client(fetch(1))
    found = Snapshot(wire.now_ms + 10**9, {})
    found.add(wire.session)
    assert found.ages()[-1].count == 1
