"""Usage rows: the use of each user and client id in each second; nothing is lost between two seconds."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stats import usage as module
from proxy.core.stats.usage import OTHER, WINDOW_MS, Duration, Usage, UsageBook, UsageRow
from tests.support.core.ledger import TimedWire, make_counting_engine
from tests.support.messages import frames as f

NOW_MS = 1_700_000_000_250


def book(now_ms: int = NOW_MS) -> tuple[UsageBook, list[tuple[int, list[UsageRow]]]]:
    told: list[tuple[int, list[UsageRow]]] = []
    return UsageBook(now_ms, lambda ts_ms, rows: told.append((ts_ms, list(rows)))), told


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 700), st.booleans()), max_size=30))
def test_a_duration_is_the_integral_of_its_count(steps: list[tuple[int, int, bool]]):
    """The result does not depend on the number of changes, nor on the times at which it is taken."""
    lasting, now_ms, count, due_ms, taken_ms = Duration(NOW_MS), NOW_MS, 0, 0, 0
    for by, elapsed_ms, takes in steps:
        now_ms += elapsed_ms
        due_ms += count * elapsed_ms
        lasting.change(by, now_ms)
        count += by
        if takes:
            taken_ms += lasting.take(now_ms)
    assert lasting.count == count
    assert taken_ms + lasting.take(now_ms) == due_ms


def test_taking_a_row_resets_its_counts():
    """The row has all columns, also the highest number of connections; a second without activity has none."""
    usage = Usage("alice", "c", 0, [])
    for _ in range(3):
        usage.open()
    usage.connections -= 2
    usage.requests, usage.request_bytes, usage.response_bytes = 5, 500, 900
    usage.mark_exempt(30)
    usage.defer(40)
    usage.throttle(70, 1)
    usage.throttle(20, 1)
    usage.throttle(5, 0)
    usage.blocked.change(1, 400)
    usage.muted.change(2, 900)
    assert usage.take(0, 1000) == UsageRow(
        ts_ms=0,
        user="alice",
        client_id="c",
        requests=5,
        charged=3,
        exempt=1,
        request_bytes=500,
        charged_bytes=500 - 4 * 5 - 30 - 40,
        exempt_bytes=30,
        response_bytes=900,
        connections=3,
        throttled=2,
        throttle_ms=95,
        throttle_ms_max=70,
        blocked_ms=600,
        mute_ms=200,
    )
    usage.charge(40)
    usage.blocked.change(-1, 1100)
    usage.muted.change(-2, 1000)
    row = usage.take(1000, 2000)
    assert row is not None
    assert (row.requests, row.charged, row.charged_bytes) == (0, 1, 40)
    assert (row.connections, row.throttled, row.blocked_ms, row.mute_ms) == (1, 0, 100, 0)
    assert usage.take(2000, 3000) is None


def test_connections_of_one_name_count_together():
    """Also one that leaves and comes again; the name is dropped with the second in which the last one ends."""
    made, told = book()
    one, other = (made.join("alice", "c", NOW_MS) for _ in range(2))
    assert one is other
    one.requests += 1
    one.request_bytes += 104
    made.leave(one)
    assert made.join("alice", "c", NOW_MS) is one
    made.leave(one)
    made.roll(made.ends_ms)
    assert [(row.requests, row.connections) for _, rows in told for row in rows] == [(1, 2)]
    assert list(made.keys) == [("alice", "c")]
    made.leave(one)
    one.requests += 1
    made.roll(made.ends_ms)
    assert [row.requests for row in told[-1][1]] == [1]
    assert made.keys == {}


class Wanted:
    """What one key has in the current second, counted independently."""

    def __init__(self) -> None:
        self.connections = self.most = self.requests = self.muted = self.mute_ms = 0

    def end(self) -> tuple[int, int, int] | None:
        """End the second; return the requests, the connections and the muted time of its row, if it has one."""
        row = self.requests, self.most, self.mute_ms
        self.requests, self.most, self.mute_ms = 0, self.connections, 0
        return row if row[0] or row[2] else None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["join", "leave", "ask", "mute", "unmute", "roll"]), st.integers(0, 2)
        ),
        max_size=40,
    )
)
def test_each_key_that_was_used_in_a_second_has_a_row_and_no_other(steps: list[tuple[str, int]]):
    """Also if it came or left in that second. A key without usage is not visited at the end of the second."""
    made, told = book(0)
    wanted: dict[str, Wanted] = {}
    now_ms = 0
    for what, number in steps:
        user = f"u{number}"
        elapsed_ms = made.ends_ms - now_ms if what == "roll" else 10
        now_ms += elapsed_ms
        for each in wanted.values():
            each.mute_ms += each.muted * elapsed_ms
        if what == "roll":
            rows = {name: each.end() for name, each in wanted.items()}
            made.roll(now_ms)
            assert {
                row.user: (row.requests, row.connections, row.mute_ms) for row in told[-1][1]
            } == {name: row for name, row in rows.items() if row}
            wanted = {name: each for name, each in wanted.items() if each.connections}
            assert [name for name, _ in made.keys] == list(wanted)
            muted = {name for name, each in wanted.items() if each.muted}
            assert {usage.user for usage in made._active} == muted
        elif what == "join":
            made.join(user, "c", now_ms)
            each = wanted.setdefault(user, Wanted())
            each.connections += 1
            each.most = max(each.most, each.connections)
        elif user in wanted and wanted[user].connections:
            each, usage = wanted[user], made.keys[user, "c"]
            if what == "leave" and not each.muted:
                made.leave(usage)
                each.connections -= 1
            elif what == "ask":
                usage.touch()
                usage.requests += 1
                each.requests += 1
            elif what == "mute" or (what == "unmute" and each.muted):
                by = 1 if what == "mute" else -1
                usage.touch()
                usage.muted.change(by, now_ms)
                each.muted += by


def test_clients_over_the_bound_on_keys_share_one_row(monkeypatch):
    """Invented names cost no memory, and no request is lost."""
    monkeypatch.setattr(module, "MAX_KEYS", 3)
    made, told = book()
    for n in range(10):
        made.join(f"u{n}", "c", NOW_MS).requests += 1
    assert len(made.keys) == 4
    made.roll(made.ends_ms)
    ((_, rows),) = told
    assert sum(row.requests for row in rows) == 10
    assert {row.user: row.requests for row in rows}[OTHER] == 7


def test_the_engine_wakes_at_the_end_of_a_second_while_a_client_is_connected():
    """Without a client it has no timer."""
    engine, ledger = make_counting_engine(now_ms=NOW_MS)
    assert engine.next_ms() is None
    wire = TimedWire(engine)
    assert engine.next_ms() == 1_700_000_001_000
    engine.timers.arm(NOW_MS + 5, lambda _: None)
    assert engine.next_ms() == NOW_MS + 5
    wire.pass_us(3_000_000)
    assert ledger.seconds == [1_700_000_000_000 + n * WINDOW_MS for n in range(3)]
    wire.release()
    wire.end_seconds()
    assert engine.next_ms() is None


def test_a_second_is_over_before_anything_of_the_next_one_is_counted():
    """A request in the first millisecond of a second belongs to that second."""
    engine, ledger = make_counting_engine(now_ms=NOW_MS)
    wire = TimedWire(engine).client(f.heartbeat(1))
    wire.pass_us(750_000)
    assert [row.requests for row in ledger.rows] == [1]
    wire.client(f.heartbeat(2))
    wire.end_seconds()
    assert [(row.ts_ms, row.requests) for row in ledger.rows] == [
        (1_700_000_000_000, 1),
        (1_700_000_001_000, 1),
    ]


def test_each_client_id_of_a_connection_has_its_own_row():
    """A proxy in front of Sluice mixes clients; each request counts for the client id in its header."""
    engine, ledger = make_counting_engine(now_ms=NOW_MS)
    wire = TimedWire(engine)
    for n, client_id in enumerate(("a", "b", "a", "b", "b"), 1):
        wire.client(f.heartbeat(n, client_id=client_id))
    wire.end_seconds()
    counted = {row.client_id: row.requests for row in ledger.rows if row.requests}
    assert counted == {"a": 2, "b": 3}


def test_a_stall_is_divided_into_its_seconds():
    """Each has the durations within it, and the first has all counts; a second without any has no row."""
    made, told = book(0)
    quiet, busy = made.join("alice", "c", 0), made.join("bob", "c", 0)
    busy.requests += 7
    quiet.blocked.change(1, 250)
    quiet.muted.change(2, 500)
    made.roll(3500)
    assert made.ends_ms == 4000
    assert [ts_ms for ts_ms, _ in told] == [0, 1000, 2000]
    assert [
        (row.ts_ms, row.user, row.requests, row.blocked_ms, row.mute_ms)
        for _, rows in told
        for row in rows
    ] == [
        (0, "alice", 0, 750, 1000),
        (0, "bob", 7, 0, 0),
        (1000, "alice", 0, 1000, 2000),
        (2000, "alice", 0, 1000, 2000),
    ]
    quiet.blocked.change(-1, 3600)
    quiet.muted.change(-2, 3600)
    made.roll(4000)
    assert [(row.blocked_ms, row.mute_ms) for row in told[-1][1]] == [(600, 1200)]
    made.roll(9_999)
    assert [(ts_ms, len(rows)) for ts_ms, rows in told[4:]] == [(4000, 0)]


def test_a_very_long_stall_is_reported_as_its_last_minute():
    """After a day of sleep the sum is right, and the loop does not write a day of rows at once."""
    made, told = book(0)
    made.join("alice", "c", 0).blocked.change(1, 0)
    day_ms = 86_400_000
    made.roll(day_ms)
    rows = [row for _, second in told for row in second]
    assert len(rows) == 1 + module.MAX_STALL_MS // WINDOW_MS
    assert sum(row.blocked_ms for row in rows) == day_ms
    assert {row.blocked_ms for row in rows[2:]} == {1000}
    assert rows[-1].ts_ms == day_ms - 1000
