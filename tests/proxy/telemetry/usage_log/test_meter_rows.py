"""The family `api`: what the core's meters have counted since they were last looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.api import Outcome
from proxy.core.histogram import BUCKETS, bucket_of
from proxy.core.meters import STAGES, Meter, MeterBook
from proxy.telemetry.usage_log import meter_rows
from proxy.telemetry.usage_log.meter_rows import MeterDiffs, MeterWatch
from proxy.telemetry.usage_log.rows import ApiRow, Stamp

ALICE, BOB = ("alice", "a"), ("bob", "b")


class Ledger:
    """A book, its watch and the rows made of it."""

    def __init__(self) -> None:
        self.book = MeterBook(by_key=True)
        self.watch = MeterWatch(self.book)
        self.diffs = MeterDiffs()
        self.stamp = Stamp("a", "b")
        self.rows: list[ApiRow] = []

    def meter(self, key: tuple[str, str], api_key: int = 12) -> Meter:
        return self.book.find(api_key, f"Api{api_key}", *key)

    def second(self, *active: tuple[str, str], connected=(ALICE, BOB)) -> list[ApiRow]:
        """A second is over."""
        readings, retired = self.watch.look(active, connected)
        rows = list(self.diffs.rows(self.stamp, 1000, readings))
        self.diffs.forget(retired)
        self.rows += rows
        return rows


def test_a_row_is_what_has_moved() -> None:
    """Counts, bytes and histograms are those since the last row, not since the start."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[bucket_of(100)] += 2
    meter.request_bytes += 70
    ledger.second(ALICE)
    meter.upstream[bucket_of(100)] += 1
    meter.upstream[bucket_of(9000)] += 3
    meter.outcomes[Outcome.EXPIRED] += 1
    meter.waited("throttle", 250_000)
    meter.request_bytes += 35
    meter.response_bytes += 11

    (row,) = ledger.second(ALICE)

    assert (row.user, row.client_id, row.api_key, row.api) == ("alice", "a", 12, "Api12")
    assert (row.requests, row.replied, row.expired, row.no_reply) == (5, 4, 1, 0)
    assert (row.request_bytes, row.response_bytes) == (35, 11)
    assert (row.upstream_i, row.upstream_n) == ([bucket_of(100), bucket_of(9000)], [1, 3])
    assert (row.throttle_i, row.throttle_n) == ([bucket_of(250_000)], [1])
    assert row.memory_i == row.purgatory_n == []
    assert row.seq == 2


def test_who_did_nothing_has_no_row() -> None:
    """Neither a key that was not active, nor an API of an active one that was not used."""
    ledger = Ledger()
    ledger.meter(ALICE).upstream[3] += 1
    ledger.meter(ALICE, 3).upstream[3] += 1
    ledger.meter(BOB).upstream[3] += 1

    assert {row.user for row in ledger.second(ALICE)} == {"alice"}
    ledger.meter(ALICE, 3).upstream[3] += 1
    assert [row.api_key for row in ledger.second(ALICE)] == [3]


def test_who_has_gone_is_looked_at_once_more_and_retired() -> None:
    """What happened after its last active second is in a last row; then its meters are gone, and their sums stay."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[3] += 1
    ledger.second(ALICE)
    meter.outcomes[Outcome.DISCONNECTED] += 2
    ledger.second(connected=())
    ledger.second(connected=())

    assert sum(row.disconnected for row in ledger.rows) == 2
    assert ledger.book.of(*ALICE) == ()
    assert ledger.diffs._last == {}
    assert [each.outcome(Outcome.DISCONNECTED) for each in ledger.book.by_api()] == [2]


def test_who_comes_back_in_time_is_not_retired() -> None:
    """A connection that ends and another of the same key that begins: the meters go on."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[3] += 1
    ledger.second(ALICE, connected=())
    ledger.second()
    meter.upstream[3] += 1

    assert [row.requests for row in ledger.second(ALICE)] == [1]
    assert list(ledger.book.of(*ALICE)) == [meter]


def test_a_flood_of_names_is_retired_in_the_end() -> None:
    """Thousands of keys that came once: after a while none of their meters is left, and all were counted."""
    ledger = Ledger()
    for second in range(5):
        flood = [("x", f"{second}-{number}") for number in range(1000)]
        for key in flood:
            ledger.meter(key).upstream[3] += 1
        ledger.second(*flood, connected=())
    for _ in range(100):
        ledger.second(connected=())

    assert len(ledger.book.each()) == 0
    assert ledger.watch._known == set()
    assert sum(row.requests for row in ledger.rows) == 5000
    assert sum(each.replied for each in ledger.book.by_api()) == 5000


def test_who_came_and_went_while_nothing_was_looked_at_is_seen_later() -> None:
    """A disk that hung for a while: the rows come late, and the meters are retired all the same."""
    ledger = Ledger()
    for second in range(5):
        key = ("x", f"{second}")
        ledger.meter(key).upstream[3] += 1
        assert ledger.watch.pass_over([key], ()) == 0
    for _ in range(3):
        ledger.second(connected=())

    assert sorted(row.client_id for row in ledger.rows) == ["0", "1", "2", "3", "4"]
    assert ledger.book.each() == ()
    assert ledger.watch._missed == {}


def test_a_flood_of_names_while_nothing_is_looked_at_has_its_bound(monkeypatch) -> None:
    """The oldest that are gone are retired unseen, and said to be lost; their sums stay, and who is connected stays."""
    monkeypatch.setattr(meter_rows, "MISSED_MOST", 100)
    ledger = Ledger()
    ledger.meter(BOB).upstream[3] += 1
    ledger.second(BOB)
    lost = 0
    for second in range(50):
        flood = [ALICE, *[("x", f"{second}-{number}") for number in range(10)]]
        for key in (BOB, *flood):
            ledger.meter(key).upstream[3] += 1
        lost += ledger.watch.pass_over([BOB, *flood], (ALICE, BOB))

    assert lost == 500 + 1 - 100
    assert len(ledger.book.each()) == 100 + 1  # and Bob, who was known before
    assert sum(each.replied for each in ledger.book.by_api()) == 50 * 12 + 1
    ledger.second()
    for _ in range(3):
        ledger.second(ALICE, BOB)
    assert set(ledger.book.each()) == {ledger.meter(ALICE), ledger.meter(BOB)}
    assert sum(row.requests for row in ledger.rows) == 50 * 12 + 1 - lost


moves = st.tuples(
    st.sampled_from([ALICE, BOB]),
    st.sampled_from([0, 1, 12]),
    st.sampled_from(["upstream", *STAGES])
    | st.sampled_from(Outcome).filter(lambda o: o is not Outcome.REPLIED),
    st.integers(0, 2**31),
)


@given(st.lists(st.tuples(st.lists(moves, max_size=6), st.booleans()), max_size=6))
def test_rows_add_up_to_the_meters(seconds) -> None:
    """Whatever moved in whichever second, and whether or not it was looked at then: the sums are the meters'."""
    ledger = Ledger()
    for moved, lost in seconds:
        for key, api_key, what, us in moved:
            meter = ledger.meter(key, api_key)
            if what == "upstream":
                meter.upstream[bucket_of(us)] += 1
            elif isinstance(what, Outcome):
                meter.outcomes[what] += 1
            else:
                meter.waited(what, us)
        if not lost:
            ledger.second(ALICE, BOB)
    ledger.rows += ledger.diffs.rows(ledger.stamp, 9000, ledger.watch.look_at_all())

    for meter in ledger.book.each():
        rows = [
            row
            for row in ledger.rows
            if (row.user, row.client_id, row.api_key)
            == (meter.user, meter.client_id, meter.api_key)
        ]
        assert sum(row.replied for row in rows) == meter.replied
        assert sum(row.expired for row in rows) == meter.outcomes[Outcome.EXPIRED]
        for stage in ("upstream", *STAGES):
            counts = [0] * BUCKETS
            for row in rows:
                for place, count in zip(
                    getattr(row, f"{stage}_i"), getattr(row, f"{stage}_n"), strict=True
                ):
                    counts[place] += count
            expected = (
                meter.upstream if stage == "upstream" else meter.waits.get(stage, [0] * BUCKETS)
            )
            assert counts == expected
